"""Make the results of a published study again from its raw records, by this project's code and claims."""

import shutil
import tempfile
import zipfile
from pathlib import Path

from pipeline.claims.claims_file import CLAIMS
from pipeline.claims.verdicts import VERDICTS, judge_results, verdicts_text
from pipeline.comparison.comparing import compare_runs
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.files.writing import whole
from pipeline.publication.archive import METADATA, names_of_study, unpack
from pipeline.publication.crate import describe
from pipeline.report.rendering import PROJECT
from pipeline.report.results import Results, load_results
from pipeline.study.schema import PARAMS, load_study

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the archive, so that the same study gives the same bytes


def recompute(archive: Path, root: Path) -> Results:
    """Unpack the study in `archive` into the empty folder `root`, and compare and judge what its records hold.

    Nothing of the archive is imported or executed. This is the one door for what a stranger sends: whatever it holds,
    it is read, or refused in a sentence.

    Raises:
        InputError: names the archive and what is wrong with it.
    """
    try:
        unpack(archive, root)
        shutil.copyfile(PROJECT / CLAIMS, root / CLAIMS)  # whatever claims it was judged by before
        return remake(root)
    except Exception as error:  # what a stranger's values of the right type and the wrong meaning end in has no bounds
        reason = error if isinstance(error, InputError) else f"{type(error).__name__}: {excerpt(error)}"
        words = str(reason).replace(f"{root}/", "")
        raise InputError(words if str(archive) in words else f"{excerpt(archive)} is refused: {words}") from error


def remake(root: Path) -> Results:
    """Compare and judge the raw records under `root`, and write the results there.

    Raises:
        InputError: the records contradict themselves or one another, or are not of the study.
    """
    texts = compare_runs(root)[1]
    (root / "results").mkdir(exist_ok=True)
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8", newline="")
    (root / VERDICTS).write_text(verdicts_text(judge_results(root)), encoding="utf-8")
    return load_results(root)


def publish(root: Path, archive: Path) -> Results:
    """Write the archive of the study under `root`, its own runs and no others, and return its results.

    Raises:
        InputError: what a reviewer would find wrong with it.
    """
    study = load_study(root / PARAMS)
    names = sorted(name for name in names_of_study(study) if (root / name).is_file())
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in names:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, copy / name)
        results = remake(copy)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with whole(archive) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(zipfile.ZipInfo(METADATA, _EPOCH), describe(results, names), zipfile.ZIP_DEFLATED)
        for name in names:
            file.writestr(zipfile.ZipInfo(name, _EPOCH), (root / name).read_bytes(), zipfile.ZIP_DEFLATED)
    return results
