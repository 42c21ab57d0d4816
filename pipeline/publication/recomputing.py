"""Recompute the results of a published study from its raw records, with this project's code and claims."""

import shutil
from pathlib import Path

from pipeline.claims.verdicts import judge_results
from pipeline.comparison.comparing import compare_runs
from pipeline.errors import InputError
from pipeline.files.places import CLAIMS
from pipeline.files.untrusted import excerpt
from pipeline.publication.archive import unpack
from pipeline.report.rendering import PROJECT
from pipeline.report.results import Results, load_results


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
