"""Define the archive of a published study, and recompute the study's results from an archive.

`recompute` uses the records in the archive, and this project's own code and claims.
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
OVERLAY = "overlay.diff"  # a diff from the commit that the records name to the code that made the runs
GET_IT_AGAIN = "Get it again from whoever published it."
OF_A_RUN = ("record.json", "epochs.csv", "predictions.npz")
OF_A_MEASUREMENT = ("blocks.csv", "measurement.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def names_of_study(study: Study) -> Iterator[str]:
    """Yield the path, inside the archive of `study`, of each file that the archive may hold, except `METADATA`."""
    yield from (str(PARAMS), "claims.yaml", OVERLAY, "results/numerics.json")
    for benchmark in study.benchmarks:
        yield f"runs/{benchmark}/{LEFT_OUT}"
    for benchmark in study.timed_benchmarks:
        yield from (f"results/speed/{benchmark}/{name}" for name in OF_A_MEASUREMENT)
    yield from (f"{key.directory}/{name}" for key in study.runs() for name in OF_A_RUN)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the study in `archive` into the empty `folder`.

    Write `params.yaml` first, and the other files only if the names of all files belong to the study.

    Raises:
        InputError: the archive is missing, damaged or too large, has no valid `params.yaml`, or holds a file that does
            not belong to the study.
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
    """Unpack `archive` into the empty folder `root`, and return the results that its records give.

    Compare the records by this project's code, and judge this project's claims, not the claims in the archive. Import
    and execute nothing from the archive. Whatever the archive holds, this function either returns results or raises
    `InputError`.

    Raises:
        InputError: the archive is faulty; the message names the archive and the fault.
    """
    try:
        unpack(archive, root)
        shutil.copyfile(PROJECT / CLAIMS, root / CLAIMS)  # not the claims in the archive
        return remake(root)
    except Exception as error:  # a stranger's values may have the right type and still raise any error
        reason = error.fault if isinstance(error, InputError) else f"{type(error).__name__}: {excerpt(error)}"
        words = str(reason).replace(f"{root}/", "")
        raise InputError(words if str(archive) in words else f"{excerpt(archive)} is refused: {words}") from error


def remake(root: Path) -> Results:
    """Compare the records under `root`, judge the claims there, write the results there, and return the results.

    Raises:
        InputError: there are no records, or a file is missing or damaged, contradicts itself or another file, or
            belongs to another study. A stranger's records may also raise other errors.
    """
    compare_runs(root)
    judge_results(root)
    return load_results(root)


def check_name(folder: Path) -> None:
    """Raise `InputError` unless the folder's name is fit to be part of a web address.

    The name may have at most 100 ASCII letters, digits, `.`, `-` and `_`, and must begin with a letter or a digit.
    """
    if not _NAME.fullmatch(folder.name):
        raise InputError(
            f"{excerpt(folder)}: its name becomes part of an address, so it may have at most 100 letters, digits, ., - "
            "and _, and must begin with a letter or a digit. Rename the folder"
        )


def check_folder(folder: Path) -> None:
    """Raise `InputError` unless `folder` can be the folder of a published study.

    The folder's name must pass `check_name`. The folder must not be or contain a symbolic link, and may contain only
    `ARCHIVE`, `PAGE` and `FIGURE`.
    """
    check_name(folder)
    for path in [folder, *folder.glob("*")]:
        if path.is_symlink() or (path != folder and path.name not in (ARCHIVE, PAGE, FIGURE)):
            raise InputError(f"{excerpt(path)} does not belong to a published study")
