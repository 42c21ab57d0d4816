"""List the files that the archive of a published study holds, and recompute a study from a stranger's archive.

Results come from the raw records, by this project's code and claims.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml.error import YAMLError

from pipeline.claims.verdicts import judge_results
from pipeline.comparison.comparing import compare_runs
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.places import CLAIMS, PARAMS
from pipeline.files.untrusted import damaged, excerpt, read_zip
from pipeline.machine.left_out import LEFT_OUT
from pipeline.report.rendering import PROJECT
from pipeline.report.results import Results, load_results
from pipeline.study.schema import Study, load_study

ARCHIVE, PAGE, FIGURE = "study.zip", "README.md", "answer.svg"  # the files of a published study's folder
METADATA = "ro-crate-metadata.json"
OVERLAY = "overlay.diff"  # a diff from the commit in the runs' records to the code that made them
GET_IT_AGAIN = "Get it again from whoever published it."
OF_A_RUN = ("record.json", "epochs.csv", "predictions.npz")
OF_A_MEASUREMENT = ("blocks.csv", "measurement.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def names_of_study(study: Study) -> Iterator[str]:
    """Yield the names of the files that the archive of `study` may hold: raw records and their inputs."""
    yield from (str(PARAMS), "claims.yaml", OVERLAY, "results/numerics.json")
    for benchmark in study.benchmarks:
        yield f"runs/{benchmark}/{LEFT_OUT}"
    for benchmark in study.timed_benchmarks:
        yield from (f"results/speed/{benchmark}/{name}" for name in OF_A_MEASUREMENT)
    yield from (f"{key.directory}/{name}" for key in study.runs() for name in OF_A_RUN)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the study in `archive` into the empty `folder`.

    Only `params.yaml` is written before the names of all files are known to belong to the study.

    Raises:
        InputError: the archive is missing, damaged, too large, or holds a file that does not belong to its study.
    """
    contents = read_zip(archive, GET_IT_AGAIN)
    if str(PARAMS) not in contents:
        raise damaged(archive, f"it has no {PARAMS}", GET_IT_AGAIN)
    try:
        yaml_files.check_untrusted(contents[str(PARAMS)])
    except (ValueError, YAMLError) as error:
        raise damaged(archive, f"{PARAMS}: {error}", GET_IT_AGAIN) from None
    (folder / PARAMS).write_bytes(contents[str(PARAMS)])
    if odd := contents.keys() - {METADATA, *names_of_study(load_study(folder / PARAMS))}:
        raise damaged(archive, f"it holds {excerpt(min(odd), 80)}, which does not belong to this study", GET_IT_AGAIN)
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def recompute(archive: Path, root: Path) -> Results:
    """Unpack the study in `archive` into the empty folder `root`, and compare and judge its records.

    Nothing in the archive is imported or executed. All archives from strangers pass through this function. It either
    reads an archive or refuses it with a message, whatever the archive holds.

    Raises:
        InputError: the archive is faulty; the message names the archive and the fault.
    """
    try:
        unpack(archive, root)
        shutil.copyfile(PROJECT / CLAIMS, root / CLAIMS)  # not the claims in the archive
        return remake(root)
    except Exception as error:  # a stranger's values of the right type but the wrong meaning can raise anything
        reason = error.fault if isinstance(error, InputError) else f"{type(error).__name__}: {excerpt(error)}"
        words = str(reason).replace(f"{root}/", "")
        raise InputError(words if str(archive) in words else f"{excerpt(archive)} is refused: {words}") from error


def remake(root: Path) -> Results:
    """Compare and judge the raw records under `root`, and write the results there.

    Raises:
        InputError: the records contradict themselves or one another, or belong to another study.
    """
    compare_runs(root)
    judge_results(root)
    return load_results(root)


def check_name(folder: Path) -> None:
    """Raise `InputError` if a web address can't contain the folder's name."""
    if not _NAME.fullmatch(folder.name):
        raise InputError(
            f"{excerpt(folder)}: its name becomes part of an address, so it may have at most 100 letters, digits, ., - "
            "and _, and must begin with a letter or a digit. Rename the folder"
        )


def check_folder(folder: Path) -> None:
    """Raise `InputError` if the name or content of `folder` is not that of a published study."""
    check_name(folder)
    for path in [folder, *folder.glob("*")]:
        if path.is_symlink() or (path != folder and path.name not in (ARCHIVE, PAGE, FIGURE)):
            raise InputError(f"{excerpt(path)} does not belong to a published study")
