"""Put the user's own code into an archive with its digests, and check that it is that code."""

import json
import os
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


def name_in_archive(source: str) -> str:
    """Return where an archive has a source of the user's; what lies outside of the project goes by its last name."""
    path = PurePosixPath(os.path.normpath(source))
    is_outside = path.is_absolute() or ".." in path.parts
    return f"code/outside/{path.name}" if is_outside else f"code/{path}"


def own_code(root: Path, study: Study) -> dict[str, Path]:
    """Return the files of the user's code that the runs of `study` depend on, by their names in the archive.

    Raises:
        InputError: a source has no name there, or two have the same.
    """
    sources: dict[str, str] = {}
    for source in own_sources(study):
        name = name_in_archive(source)
        if name.endswith("/..") or sources.setdefault(name, source) != source:
            other = sources.get(name, "the folder around this project")
            raise InputError(f"{excerpt(source)} can't be told from {excerpt(other)} in an archive. Rename it")
    return {
        f"{name}{path.as_posix().removeprefix((root / source).as_posix())}": path
        for name, source in sources.items()
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
        path = folder / name_in_archive(source)
        if not path.exists() or digest(path) != named.get(source):
            raise damaged(archive, f"the code in it of {excerpt(source)} is not that of its digest", GET_IT_AGAIN)
