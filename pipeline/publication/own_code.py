"""Put the user's own code into an archive with its digests, and check that it is that code."""

import json
from pathlib import Path, PurePosixPath

from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, damaged, excerpt, read_json
from pipeline.study.schema import Study, load_study
from pipeline.study.user_code import digest, files_of_code

CODE = "code.json"  # the digests of the user's code, by the source that the study names
GET_IT_AGAIN = Remedy(*["Get it again from whoever published it."] * 2)


def own_sources(study: Study) -> list[str]:
    """List the files and folders of the user's code that the study names: of models, and of builders of data sets."""
    models = [benchmark.model.source for benchmark in study.benchmarks.values()]
    builders = [dataset.source for dataset in study.datasets.values() if dataset.source]
    named = dict.fromkeys(PurePosixPath(source).as_posix() for source in (*models, *builders))
    return [source for source in named if not source.startswith("pipeline/")]


def own_code(root: Path, study: Study) -> dict[str, Path]:
    """Return the files of the user's code that the runs of `study` depend on, by their names in the archive.

    Raises:
        InputError: a source lies outside of this folder, where no archive can name it.
    """
    for source in own_sources(study):
        if source.startswith("/") or ".." in source.split("/"):
            raise InputError(f"{excerpt(source)} lies outside of this project. Move it here, and name it so")
    return {
        f"code/{source}{path.as_posix().removeprefix((root / source).as_posix())}": path
        for source in own_sources(study)
        for path in files_of_code(root / source)
    }


def code_digests(root: Path, study: Study) -> str:
    """Return the text of `code.json`: of each source of the user's its SHA-256, as runs depend on it."""
    return json.dumps({source: digest(root / source) for source in own_sources(study)}, indent=2) + "\n"


def check_code(folder: Path, archive: Path) -> None:
    """Check that the user's code in an unpacked archive is that whose digests it names."""
    sources = own_sources(load_study(folder / "params.yaml"))
    named = read_json(dict[str, str], folder / CODE, GET_IT_AGAIN) if sources else {}
    for source in sources:
        if not (folder / "code" / source).exists() or digest(folder / "code" / source) != named.get(source):
            raise damaged(archive, f"the code in it of {excerpt(source)} is not that of its digest", GET_IT_AGAIN)
