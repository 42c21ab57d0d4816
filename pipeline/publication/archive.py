"""A published study: the files of its archive, the folder that it lies in, and how both are read from a stranger."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.code import files_of_code
from pipeline.files.untrusted import Remedy, damaged, excerpt, read_bytes, read_zip
from pipeline.machine.left_out import LEFT_OUT
from pipeline.study.schema import Study, load_study

PUBLISHED_EARLIER = (
    "a4154b16a132ab041b40450032627c97b34844dbd1de4f26ef9336e96ba57666",  # evening-2-cores
    "775d4d77c8f5d19c53eaeac6016a9322d95cfab6cf0e44bb45e2e1093f502341",  # float8-2-cores
    "afaf287251c29ecb0f03df16d259968fcbb6f5deafd5f4a00368c893f0507249",  # quick-2-cores
    "603f3498a582cb4cb42bb550c5d0d377731c3be511cd68a3ad44cc20598bbed6",  # quick-avx2-2-cores
    "177b61e46d0be4f542319306b7f909236e776dae4115546e0b1bbefe0a439e5b",  # seeds-2-cores
)
GET_IT_AGAIN = Remedy(*["Get it again from whoever published it."] * 2)
MANIFEST = "manifest-sha256.txt"
METADATA = "ro-crate-metadata.json"
OF_THE_PROJECT = ("dvc.yaml", "CITATION.cff", "LICENSE")
# Recomputed from the records by whoever checks the archive: the numbers, and what judges and templates make of them.
_TABLES = ("runs.csv", "pairs.csv", "epochs.csv")
RECOMPUTED = tuple(f"results/{name}" for name in (*_TABLES, "verdicts.json", "status.json", "report.html"))
# Taken as published by whoever checks the archive, with the records and the blocks.
TAKEN = ("params.yaml", "claims.yaml", "results/numerics.json")
OF_A_RUN = ("record.json", "epochs.csv", "predictions.npz")
# What archives that were published earlier have besides. Nothing reads it.
_EARLIER = re.compile(
    r"compiled/[\w.-]+|conf/base\.yaml|sittings\.csv|codemeta\.json|results/(ceilings|comparison|environments)\.json|results/step_profile\.csv"
)
_SPEED = re.compile(r"results/speed/(\w+)\.(csv|json)")
_LOCK = re.compile(r"requirements/[a-z-]+\.(in|txt)")
# What a folder of a published study holds, and where each of it lies in the study; the archive has everything else.
_NAMES = ("report.html", "crate.zip", "params.yaml", "pairs.csv", "verdicts.json", "status.json")
FILES = {name: f"results/{name}" for name in _NAMES} | {"params.yaml": "params.yaml"}
_FILES_EARLIER = {name: path for name, path in FILES.items() if name != "pairs.csv"} | {
    "comparison.json": "results/comparison.json"
}
MAX_REPORT_BYTES = 3 * 10**6  # which opens within two seconds; a study of the profile `paper` has 1.1 MB
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def names_of_study(study: Study) -> Iterator[str]:
    """List what an archive of `study` may hold of it: its own runs, and no earlier ones."""
    yield from ("dvc.lock", *TAKEN, *RECOMPUTED)
    yield from (
        f"results/speed/{name}/{file}" for name in study.benchmarks for file in ("blocks.csv", "measurement.json")
    )
    yield from (f"runs/{name}/{LEFT_OUT}" for name in study.benchmarks)
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
    if is_published_earlier(archive):
        contents = {_SPEED.sub(_place_of_speed, name): content for name, content in contents.items()}
    known = {METADATA, *OF_THE_PROJECT, *names_of_study(study)}
    if is_published_earlier(archive):
        known |= set(filter(_EARLIER.fullmatch, contents))
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


def _place_of_speed(found: re.Match[str]) -> str:
    """Return where a file of a measurement lies that an earlier archive has beside the others."""
    return f"results/speed/{found[1]}/{'blocks.csv' if found[2] == 'csv' else 'measurement.json'}"


def is_published_earlier(archive: Path) -> bool:
    """Return whether this is one of the archives that this project published when the comparison held more."""
    return hashlib.sha256(read_bytes(archive, GET_IT_AGAIN)).hexdigest() in PUBLISHED_EARLIER


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


def check_folder(folder: Path) -> None:
    """Check that the files in a published study's `folder` are those of its archive; nothing is recomputed.

    Raise an `InputError` that names the file that is missing, damaged or another.
    """
    check_name(folder)
    if folder.is_symlink():
        raise InputError(f"{folder} is a link, and may lead anywhere. Put the study itself there")
    is_earlier = (folder / "crate.zip").is_file() and is_published_earlier(folder / "crate.zip")
    files = _FILES_EARLIER if is_earlier else FILES
    missing = [name for name in files if not (folder / name).is_file() or (folder / name).is_symlink()]
    if missing:
        publish = f"Publish the study again: make publish TO={folder}"
        raise InputError(f"{folder}: {', '.join(missing)} missing, or no plain file. {publish}")
    contents = read_archive(folder / "crate.zip")
    for name, path in files.items():
        if name != "crate.zip" and read_bytes(folder / name, GET_IT_AGAIN) != contents.get(path):
            raise damaged(folder / name, "it is not the one in crate.zip", GET_IT_AGAIN)
    if odd := sorted(path.name for path in folder.iterdir() if path.name not in files):
        raise InputError(f"{folder}: {excerpt(', '.join(odd))} is no part of a published study. Remove it")


def check_name(folder: Path) -> None:
    """Raise `InputError` where no address can have the folder's name."""
    if not _NAME.fullmatch(folder.name):
        raise InputError(
            f"{excerpt(folder)}: its name must be at most 100 letters, digits, ., - and _ for an address, and begin "
            "with a letter or a digit. Rename the folder"
        )


def check_size(report: Path) -> None:
    """Raise `InputError` where a report opens slowly."""
    if (num_bytes := report.stat().st_size) > MAX_REPORT_BYTES:
        raise InputError(
            f"{report} has {num_bytes / 1e6:.1f} MB, and opens slowly above {MAX_REPORT_BYTES / 1e6:g} MB. Publish a "
            "study of fewer variants"
        )
