"""List the files of a published study's archive, and open an archive that a stranger made."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.compiled.programs import RECIPES
from pipeline.compiled.schema import CHECK, COMPILED_FILES
from pipeline.compiled.targets import TARGETS
from pipeline.files.code import files_of_code
from pipeline.files.untrusted import Remedy, damaged, excerpt, read_zip
from pipeline.study.schema import Study, load_study

GET_IT_AGAIN = Remedy(*["Get it again from whoever published it."] * 2)
MANIFEST = "manifest-sha256.txt"
METADATA = "ro-crate-metadata.json"
OF_THE_PROJECT = ("dvc.yaml", "CITATION.cff", "codemeta.json", "LICENSE")
MEASURED = ("results/numerics.json", "results/ceilings.json", "results/step_profile.csv")
# Recomputed from the records by whoever checks the archive: the numbers, and what judges and templates make of them.
TABLES = (
    "results/comparison.json",
    "results/environments.json",
    "results/runs.csv",
    "results/epochs.csv",
    "results/pairs.csv",
)
RECOMPUTED = (*TABLES, "results/verdicts.json", "results/status.json", "results/report.html")
# What was compiled and by which recipes; claims are judged by both. Some of them may be missing.
COMPILED_FOR = (*(f"{COMPILED_FILES}/{target}.json" for target in TARGETS), f"{COMPILED_FILES}/{CHECK}", str(RECIPES))
OF_A_RUN = ("record.json", "epochs.csv", "predictions.npz")
_LOCK = re.compile(r"requirements/[a-z-]+\.(in|txt)")


def names_of_study(study: Study) -> Iterator[str]:
    """List what an archive of `study` may hold of it: its own runs, and no earlier ones."""
    yield from ("params.yaml", "claims.yaml", "sittings.csv", "dvc.lock", *MEASURED, *COMPILED_FOR, *RECOMPUTED)
    yield from (f"results/speed/{name}.{ending}" for name in study.benchmarks for ending in ("csv", "json"))
    yield from (f"{key.directory}/{name}" for key in study.runs() for name in OF_A_RUN)


def names_of_project(root: Path) -> Iterator[str]:
    """List the files of this project, under `root`, that belong into every archive."""
    yield from OF_THE_PROJECT
    locks = sorted(f"requirements/{path.name}" for path in (root / "requirements").glob("*"))
    yield from (name for name in locks if _LOCK.fullmatch(name))


def own_code(root: Path, study: Study) -> dict[str, Path]:
    """Return the files of the user's code that the runs of `study` depend on, by their names in the archive.

    Each file or folder that the study names has a folder of its own there, numbered in the order of `params.yaml`. An
    archive that was unpacked has them there.
    """
    if (root / METADATA).is_file():
        return {str(path.relative_to(root)): path for path in (root / "code").rglob("*") if path.is_file()}
    return {
        f"code/{index}/{path.relative_to((root / source).parent).as_posix()}": path
        for index, source in enumerate(_own_sources(study))
        for path in files_of_code(root / source)
    }


def _own_sources(study: Study) -> list[str]:
    """List the files and folders of the user's code that the study names: of models, and of builders of data sets."""
    models = [benchmark.model.source for benchmark in study.benchmarks.values()]
    builders = [dataset.source for dataset in study.datasets.values() if dataset.source]
    return [source for source in dict.fromkeys((*models, *builders)) if not source.startswith("pipeline/")]


def manifest(contents: Mapping[str, bytes]) -> str:
    """Write the manifest of files by name.

    Its first line has their number and size; `sha256sum --check` reads the rest and skips that line.
    """
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in contents.items()]
    return "\n".join([f"# {len(lines)} files, {sum(map(len, contents.values()))} bytes", *lines]) + "\n"


def unpack(archive: Path, folder: Path) -> dict[str, bytes]:
    """Unpack the study in an archive into the empty `folder`, and return its files by name.

    Nothing but `params.yaml` is written before every file is the published one, and one that such a study may have.

    Raises:
        InputError: the archive is missing, damaged, too large, holds what no archive of its study has, or a file in
            it is not the one that was published.
    """
    contents = read_archive(archive)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.yaml").write_bytes(contents["params.yaml"])
    study = load_study(folder / "params.yaml")
    known = {METADATA, *OF_THE_PROJECT, *names_of_study(study)}
    code = tuple(f"code/{index}/" for index, _ in enumerate(_own_sources(study)))
    for name in contents:
        is_code = name.startswith(code) and name == os.path.normpath(name)
        if not (name in known or is_code or _LOCK.fullmatch(name)):
            raise damaged(archive, f"it holds {excerpt(name, 80)}, which no archive of this study has", GET_IT_AGAIN)
    try:
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    except OSError as error:  # a file of the user's code has the name of a folder, or one too long
        raise damaged(archive, error, GET_IT_AGAIN) from None
    return contents


def read_archive(archive: Path) -> dict[str, bytes]:
    """Return the files of an archive by name. Their names, number, sizes and digests must be those of the manifest."""
    contents = read_zip(archive, GET_IT_AGAIN)
    for name in (MANIFEST, "params.yaml", "claims.yaml"):
        if name not in contents:
            raise damaged(archive, f"it has no {name}", GET_IT_AGAIN)
    theirs = contents.pop(MANIFEST).decode(errors="replace").split("\n")
    ours = manifest(contents).split("\n")
    if sorted(theirs) != sorted(ours):
        odd = {line.partition("  ")[2] or line for line in set(theirs) ^ set(ours)}
        words = ", ".join(excerpt(name, 80) for name in sorted(odd)[:5])
        raise damaged(archive, f"not as published: {words or MANIFEST}", GET_IT_AGAIN)
    return contents
