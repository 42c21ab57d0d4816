"""List the files of a published study's archive, and open an archive that a stranger made."""

import hashlib
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from pipeline.compiled.programs import RECIPES
from pipeline.compiled.schema import COMPILED_FILES
from pipeline.compiled.targets import TARGETS
from pipeline.errors import InputError
from pipeline.files.untrusted import (
    ZIP_FAULTS,
    checked_members,
    damaged,
    excerpt,
    open_zip,
    read_bytes,
    read_member,
)
from pipeline.publication.own_code import CODE, GET_IT_AGAIN, check_code, name_in_archive, own_sources
from pipeline.study.schema import Study, load_study

MANIFEST = "manifest-sha256.txt"
CROISSANT = "croissant.json"
NOT_READ = ("ro-crate-metadata.json", "sbom.json", CODE)
OF_THE_PROJECT = ("dvc.yaml", "CITATION.cff", "codemeta.json", "LICENSE")
OF_THE_STUDY = ("params.yaml", "claims.yaml", "dvc.lock")  # dvc.lock may be missing
MEASURED = ("results/numerics.json", "results/ceilings.json", "results/layers.csv")
# Recomputed from the records by whoever checks the archive.
RECOMPUTED = (
    "results/comparison.json",
    "results/agreement.json",
    "results/summary.json",
    "results/environments.json",
    "results/runs.csv",
    "results/epochs.csv",
    "results/pairs.csv",
    "results/verdicts.json",
    "results/status.json",
    "results/report.html",
)
# What was compiled and by which recipes; claims are judged by both. Some of them may be missing.
COMPILED_FOR = (*(f"{COMPILED_FILES}/{target}.json" for target in TARGETS), str(RECIPES))
OF_A_BENCHMARK = ("results/speed/{}.csv", "results/speed/{}.json")
OF_A_RUN = ("record.json", "epochs.csv", "predictions.npz", "weights.npz")
_MAX_TOTAL_BYTES = 2**30
_MAX_YAML_BYTES = 2**20
_LOCK = re.compile(r"requirements/[a-z-]+\.(in|txt)")
_EVENTS = re.compile(r"events\.out\.tfevents\.[\w.-]+", re.ASCII)
_COUNT = re.compile(r"# ([0-9]{1,9}) files, ([0-9]{1,15}) bytes")
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def files_of_study(root: Path, study: Study) -> Iterator[str]:
    """List the files under `root` that belong into an archive of `study`: its own runs, and no earlier ones."""
    for name in (*OF_THE_STUDY, *MEASURED, *COMPILED_FOR, *measured_speeds(study), *RECOMPUTED):
        if (root / name).is_file():
            yield name
    for key in study.runs():
        yield from (f"{key.directory}/{name}" for name in OF_A_RUN)
        events = sorted(path.name for path in (root / key.directory).glob("tensorboard/*") if path.is_file())
        yield from (f"{key.directory}/tensorboard/{name}" for name in events if _EVENTS.fullmatch(name))


def measured_speeds(study: Study) -> list[str]:
    """List the files in which the speed stage leaves what it measured."""
    return [name.format(benchmark) for benchmark in study.benchmarks for name in OF_A_BENCHMARK]


def files_of_project(root: Path) -> Iterator[str]:
    """List the files of this project, under `root`, that belong into every archive."""
    yield from OF_THE_PROJECT
    locks = sorted(f"requirements/{path.name}" for path in (root / "requirements").glob("*"))
    yield from (name for name in locks if _LOCK.fullmatch(name))


def manifest(contents: Mapping[str, bytes]) -> str:
    """Write the manifest of files by name.

    Its first line has their number and size; `sha256sum --check` reads the rest and skips that line.
    """
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in contents.items()]
    return "\n".join([f"# {len(lines)} files, {sum(map(len, contents.values()))} bytes", *lines]) + "\n"


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the study in an archive into the empty `folder`, and check that every file is the published one.

    Nothing is written before the names, the number and the size of the files are those of the manifest.

    Raises:
        InputError: the archive is missing, damaged, too large, holds what no archive of its study has, or a file in
            it is not the one that was published.
    """
    with _opened(archive) as (file, members, digests):
        _write(file, members["params.yaml"], digests, folder)
        belongs = _published_by(load_study(folder / "params.yaml"))
        if odd := [name for name in digests if not belongs(name)]:
            raise ValueError(f"it holds {_some(odd)}, which no archive of this study has")
        for name in digests.keys() - {"params.yaml"}:
            _write(file, members[name], digests, folder)
    check_code(folder, archive)


def check_beside(archive: Path, files: Mapping[str, Path]) -> None:
    """Check that each file has the size and the SHA-256 that the archive's manifest has for it.

    Args:
        files: by their name in the archive.

    Raises:
        InputError: one has not, or the archive is damaged.
    """
    with _opened(archive) as (_, members, digests):
        for name, path in files.items():
            same = name in digests and path.stat().st_size == members[name].file_size
            if not same or hashlib.sha256(read_bytes(path, GET_IT_AGAIN)).hexdigest() != digests[name]:
                raise damaged(path, f"it is not the one in {archive.name}", GET_IT_AGAIN)


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo], dict[str, str]]]:
    """Open an archive, and give it with its members and their digests, once its names and sizes are checked."""
    if not archive.is_file():
        raise InputError(f"{excerpt(archive)} is missing, or is no file. {GET_IT_AGAIN.missing}")
    try:
        with archive.open("rb") as opened, open_zip(opened) as file:
            members = checked_members(file)
            yield file, members, _digests(file, members)
    except ZIP_FAULTS as error:
        raise damaged(archive, error, GET_IT_AGAIN) from None


def _digests(file: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, str]:
    """Return SHA-256 by name. The manifest must name the members and no others, with their number and size."""
    for name in (MANIFEST, "params.yaml", "claims.yaml"):
        if name not in members:
            raise ValueError(f"it has no {name}")
        if name != MANIFEST and members[name].file_size > _MAX_YAML_BYTES:
            raise ValueError(f"{name} in it has more than {_MAX_YAML_BYTES // 2**20} MiB")
    num_bytes = sum(info.file_size for name, info in members.items() if name != MANIFEST)
    if num_bytes > _MAX_TOTAL_BYTES:
        raise ValueError(f"its files have more than {_MAX_TOTAL_BYTES // 2**20} MiB together")
    first, *lines = read_member(file, members[MANIFEST]).decode().removesuffix("\n").split("\n")
    count, matches = _COUNT.fullmatch(first), [_LINE.fullmatch(line) for line in lines]
    digests = {match[2]: match[1] for match in matches if match}
    if count is None or len(digests) != len(lines):
        raise ValueError(f"its {MANIFEST} is none that `make publish` writes")
    if odd := digests.keys() ^ (members.keys() - {MANIFEST}):
        raise ValueError(f"not as published: {_some(odd)}")
    if (int(count[1]), int(count[2])) != (len(digests), num_bytes):
        raise ValueError(f"not as published: {len(digests)} files of {num_bytes} bytes, and not{first[1:]}")
    return digests


def _published_by(study: Study) -> Callable[[str], bool]:
    """Return whether an archive of `study` may hold a file of that name."""
    runs = {str(key.directory) for key in study.runs()}
    known = {*NOT_READ, CROISSANT, *OF_THE_PROJECT, *OF_THE_STUDY, *MEASURED, *COMPILED_FOR, *RECOMPUTED}
    known |= {*measured_speeds(study), *(f"{run}/{name}" for run in runs for name in OF_A_RUN)}
    code = tuple(map(name_in_archive, own_sources(study)))

    def belongs(name: str) -> bool:
        folder, _, event = name.rpartition("/tensorboard/")
        if any(name == source or name.startswith(f"{source}/") for source in code):
            return not {"..", ".", ""} & set(name.split("/"))
        of_a_kind = _LOCK.fullmatch(name) or (folder in runs and _EVENTS.fullmatch(event))
        return name in known or bool(of_a_kind)

    return belongs


def _write(file: zipfile.ZipFile, info: zipfile.ZipInfo, digests: Mapping[str, str], folder: Path) -> None:
    content = read_member(file, info)
    if hashlib.sha256(content).hexdigest() != digests[info.filename]:
        raise ValueError(f"not as published: {excerpt(info.filename)}")
    path = folder / PurePosixPath(info.filename)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _some(names: Collection[str]) -> str:
    return ", ".join(excerpt(name, 80) for name in sorted(names)[:5])
