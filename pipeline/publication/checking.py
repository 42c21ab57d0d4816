"""Verify a published study that a stranger may have sent: its files, its crate, every number, every verdict."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.claims.result_files import Judgement
from pipeline.claims.verdicts import judge_results
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt, read_zip
from pipeline.publication.archive import GET_IT_AGAIN, TABLES, unpack
from pipeline.publication.project_files import OtherDayError, check_project_files, not_of_project
from pipeline.publication.published import FILES, Published, check_size, read_published
from pipeline.publication.recomputing import SURPRISES, recompute, words_of
from pipeline.publication.validation import crate_faults
from pipeline.report.rendering import PROJECT


class OtherSchemaError(InputError):
    """Today's rules can't judge what was published."""


class Checked(NamedTuple):
    """Hold a study that today's code gives as it was published, and its claims by the rules of today.

    `not_ours` are files of the project that the archive has otherwise, `own_claims` those that the sender added.
    """

    study: Published
    num_runs: int
    today: Sequence[Judgement]
    not_ours: Sequence[str]
    own_claims: Sequence[str]

    @property
    def changes(self) -> list[tuple[str, str | None, str | None]]:
        """List the claims whose verdict is another by today's rules: the claim, the verdict of its day, today's."""
        then = {verdict["id"]: verdict["verdict"] for verdict in self.study.verdicts}
        today = {judgement.id: judgement.verdict for judgement in self.today}
        names = [*then, *(name for name in today if name not in then)]
        return [(name, then.get(name), today.get(name)) for name in names if then.get(name) != today.get(name)]


class Unverified(NamedTuple):
    """Hold why today's code can't verify a study, and the earlier commit of this project that can."""

    reason: str
    commit: str


def check_report(folder: Path) -> Checked | Unverified:
    """Verify the published study in `folder`. Nothing of it is run.

    Raises:
        InputError: a file is missing, too many, damaged or another than its archive's; the crate is not valid; or the
            study does not follow from its records and this project's claims, and no earlier code may have made it.
    """
    study = read_published(folder)
    if odd := sorted(path.name for path in folder.iterdir() if path.name not in FILES):
        raise InputError(f"{folder}: {excerpt(', '.join(odd))} is no part of a published study. Remove it")
    check_size(folder / "report.html")
    try:
        return _verify(study)
    except InputError as error:
        is_older = study.comparison is None or isinstance(error, OtherDayError)
        if is_older and (commit := _earlier_commit(folder)):
            return Unverified(str(error), commit)
        raise


def _verify(study: Published) -> Checked:
    archive = study.folder / "crate.zip"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        unpack(archive, root)  # before any other program sees what is in it
        own_claims, not_ours = check_project_files(root), not_of_project(root)
        if faults := crate_faults(root):
            raise InputError(f"{archive} is no valid crate:\n" + "\n".join(f"  {fault}" for fault in faults))
    found = recompute(archive)
    if found.differing:
        error = InputError if found.differing.keys() & set(TABLES) else OtherDayError
        raise error(f"{archive}: its records give other results than were published.\n{found.differences}")
    return Checked(study, found.num_runs, judge_today(archive), not_ours, own_claims)


def judge_today(archive: Path) -> list[Judgement]:
    """Judge the published results in `archive` by this project's claims and judges.

    Raises:
        OtherSchemaError: the study or its results are of a schema that today's judges do not know, or damaged.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        try:
            unpack(archive, root)
            shutil.copyfile(PROJECT / "claims.yaml", root / "claims.yaml")
            return judge_results(root)
        except (InputError, *SURPRISES) as error:
            words = words_of(error, root)
            raise OtherSchemaError(f"{archive}: today's rules can't judge its results: {words}") from None


def _earlier_commit(folder: Path) -> str | None:
    """Return the commit that brought the report in `folder`, or else the one that its runs name.

    It is one before today's that this project was at. A merged branch may hold what no reviewer was shown.
    """
    brought = _ask_git("log", "--first-parent", "-1", "--format=%H", "--", str(folder.resolve() / "report.html"))
    try:
        environments = json.loads(read_zip(folder / "crate.zip", GET_IT_AGAIN)["results/environments.json"])
        commit = brought or environments[0]["git_commit"]
    except SURPRISES:
        return None
    return commit if commit in _ask_git("rev-list", "--first-parent", "HEAD").split()[1:] else None


def _ask_git(*arguments: str) -> str:
    """Return what git prints of this project; nothing where it fails, or where there is no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
