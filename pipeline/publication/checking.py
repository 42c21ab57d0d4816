"""Verify a published study that a stranger may have sent: its files, its crate, every number, every verdict."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pipeline.claims.result_files import Judgement
from pipeline.claims.verdicts import judge_results
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt, read_bytes
from pipeline.publication.archive import CROISSANT, unpack
from pipeline.publication.own_code import GET_IT_AGAIN
from pipeline.publication.project_files import ask_git, check_project_files, is_known, named_commit, own_claims
from pipeline.publication.published import FILES, Published, check_size, read_published
from pipeline.publication.recomputing import SURPRISES, first_difference, not_of_project, recompute
from pipeline.publication.validation import crate_faults
from pipeline.report.rendering import PROJECT
from pipeline.study.schema import load_study

_MAX_SECONDS = 3600  # of the code of another day, for a study of hundreds of runs
# What makes croissant.json, run by the code of the study's day: its report says nothing of that file.
_DESCRIBE_TABLES = """
import pathlib, sys
from pipeline.claims.results import load_results
from pipeline.publication.croissant import describe_tables
root = pathlib.Path(sys.argv[1])
sys.stdout.buffer.write(describe_tables(load_results(root), root).encode())
"""


class OtherSchemaError(InputError):
    """Today's rules can't judge what was published."""


class Checked(NamedTuple):
    """Hold a study that was verified: by which rules its numbers recompute, and its claims by the rules of today.

    `today` is None where its results are of a schema that today's rules do not know.
    `not_ours` are files of the project that the archive has otherwise, `own_claims` those that the sender added.
    """

    study: Published
    num_runs: int
    rules: str
    today: list[Judgement] | None
    not_ours: list[str]
    own_claims: list[str]

    @property
    def changes(self) -> list[tuple[str, str | None, str | None]]:
        """List the claims whose verdict is another by today's rules: the claim, the verdict of its day, today's."""
        then = {verdict["id"]: verdict["verdict"] for verdict in self.study.verdicts}
        if self.today is None:
            return []
        today = {judgement.id: judgement.verdict for judgement in self.today}
        names = [*then, *(name for name in today if name not in then)]
        return [(name, then.get(name), today.get(name)) for name in names if then.get(name) != today.get(name)]


def check_report(folder: Path) -> Checked:
    """Verify the published study in `folder`. Nothing of it is run.

    Raises:
        InputError: a file is missing, too many, damaged or another than its archive's; what claims are judged by is
            not this project's; the crate is not valid; or a number does not follow from the records, neither by
            today's rules nor by those of the commit that it names.
    """
    study = read_published(folder)
    if odd := sorted(path.name for path in folder.iterdir() if path.name not in FILES):
        raise InputError(f"{folder}: {excerpt(', '.join(odd))} is no part of a published study. Remove it")
    check_size(folder / "report.html")
    _check_clock(study)
    archive = folder / "crate.zip"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        unpack(archive, root)  # before any other program sees what is in it
        check_project_files(root)
        if faults := crate_faults(root):
            raise InputError(f"{archive} is no valid crate:\n" + "\n".join(f"  {fault}" for fault in faults))
        not_ours, added = not_of_project(root), own_claims(root)
        num_runs = len(load_study(root / "params.yaml").runs())
    refusal = _refusal(archive)
    rules = _recompute_by_its_day(folder, refusal) if refusal else "today's rules"
    try:
        today = judge_today(archive)
    except OtherSchemaError:
        today = None
    return Checked(study, num_runs, rules, today, not_ours, added)


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
        except InputError as error:
            text = str(error).replace(f"{root}/", "")
            raise OtherSchemaError(f"{archive}: today's rules can't judge its results: {text}") from None
        except SURPRISES as error:
            words = f"{type(error).__name__}: {error}"
            raise OtherSchemaError(f"{archive}: today's rules can't judge its results: {words}") from None


def _check_clock(study: Published) -> None:
    """Refuse a study that ended in the future: it would stay the latest one of the site."""
    said = study.status["finished_at"]
    try:
        ended = datetime.fromisoformat(said)
        late = ended.astimezone(UTC) > datetime.now(UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise InputError(f"{study.folder}: {excerpt(said)} is no time at which a study can have ended") from None
    if late:
        raise InputError(f"{study.folder}: it ended at {excerpt(said)}, which is yet to come. Whose clock was wrong?")


def _refusal(archive: Path) -> str:
    """Say why the records in `archive` do not give its results by today's rules; nothing where they do."""
    try:
        found = recompute(archive)
    except InputError as error:
        return str(error)
    texts = "\n".join(f"  {name}: {what}" for name, what in found.differing.items())
    return f"{archive}: its records give other results than were published.\n{texts}" if texts else ""


def _recompute_by_its_day(folder: Path, refusal: str) -> str:
    """Recompute the study in `folder` with the code of its day, and name these rules.

    Its day is that of the commit it names, which made its runs, or of the one which brought its report: a study may be
    judged by later code than trained it.

    Raises:
        InputError: no commit of ours is named, or no such code gives the results either; then `refusal` is why.
    """
    archive = folder / "crate.zip"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        unpack(archive, root)
        commit = named_commit(root)
        if not commit:
            raise InputError(f"{refusal}\nIt names no commit, so the rules of its day are not known.")
        if not is_known(commit):
            raise InputError(
                f"{refusal}\nIts commit, {commit[:12]}, is not in the history here, so the rules of its day are not "
                "known. A shallow clone has no history: git fetch --unshallow"
            )
        brought = (ask_git("log", "-1", "--format=%H", "--", str(folder.resolve() / "report.html")) or b"").decode()
        days = list(dict.fromkeys([commit, brought.strip() or commit]))
        for day in days:
            if _gives_the_results(day, archive, root, Path(name, day)):
                return f"the rules of its day, commit {day[:12]}"
    tried = " or ".join(day[:12] for day in days)
    raise InputError(f"{refusal}\nNor does it recompute with the code of its day, commit {tried}.")


def _gives_the_results(commit: str, archive: Path, root: Path, code: Path) -> bool:
    """Return whether the code of `commit`, unpacked into the new folder `code`, gives what was published.

    Args:
        root: where the archive is unpacked.
    """
    packed = ask_git("archive", commit)
    if packed is None:
        return False
    with tarfile.open(fileobj=io.BytesIO(packed)) as file:
        file.extractall(code, filter="data")
    copy = Path(shutil.copy(archive, code.with_suffix(".zip")))
    if _run_code(code, "-m", "stages.report", "--from", str(copy)) is None:
        return False
    if not (root / CROISSANT).is_file():
        return True
    described = _run_code(code, "-c", _DESCRIBE_TABLES, str(root))
    return described is not None and first_difference(read_bytes(root / CROISSANT, GET_IT_AGAIN), described) is None


def _run_code(code: Path, *arguments: str) -> str | None:
    """Return what Python prints with the code of the project in the folder `code`; None where it fails."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(code.parent), "PYTHONPATH": str(code)}
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=code,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=_MAX_SECONDS,
        )
    except (subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout
