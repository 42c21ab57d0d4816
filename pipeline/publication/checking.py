"""Verify a published study that a stranger may have sent: its files, its crate, every number, every verdict."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from pipeline.claims.result_files import Judgement
from pipeline.claims.results import read_environments
from pipeline.claims.verdicts import judge_results
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.archive import unpack
from pipeline.publication.recomputing import recompute
from pipeline.publication.site import FILES, Published, read_published
from pipeline.publication.validation import crate_faults
from pipeline.report.rendering import PROJECT

_COMMIT = re.compile("[0-9a-f]{40}")


class Checked(NamedTuple):
    """Hold a study that was verified: by which rules its numbers recompute, and its claims by the rules of today."""

    study: Published
    num_runs: int
    rules: str
    today: list[Judgement]

    @property
    def changes(self) -> list[tuple[str, str | None, str | None]]:
        """List the claims whose verdict is another by today's rules: the claim, the verdict of its day, today's."""
        then = {verdict["id"]: verdict["verdict"] for verdict in self.study.verdicts}
        today = {judgement.id: judgement.verdict for judgement in self.today}
        names = [*then, *(name for name in today if name not in then)]
        return [(name, then.get(name), today.get(name)) for name in names if then.get(name) != today.get(name)]


def check_report(folder: Path) -> Checked:
    """Verify the published study in `folder`. Nothing of it is run.

    Raises:
        InputError: a file is missing, too many, damaged or another than its archive's; the crate is not valid; a number
            does not follow from the records, neither by today's rules nor by those of the commit that it names.
    """
    study = read_published(folder)
    if odd := sorted(path.name for path in folder.iterdir() if path.name not in FILES):
        raise InputError(f"{folder}: {excerpt(', '.join(odd))} is no part of a published study. Remove it")
    archive = folder / "crate.zip"
    if faults := crate_faults(archive):
        raise InputError(f"{archive} is no valid crate:\n" + "\n".join(f"  {fault}" for fault in faults))
    try:
        found = recompute(archive)
        differing = found.differing
    except InputError as error:
        found, differing = None, {"the study": str(error)}
    rules = "today's rules"
    if differing:
        rules = _recompute_by_its_day(archive, differing)
    return Checked(study, len(study.study.runs()) if found is None else found.num_runs, rules, judge_today(archive))


def judge_today(archive: Path) -> list[Judgement]:
    """Judge the published results in `archive` by this project's claims and judges."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        unpack(archive, root)
        shutil.copyfile(PROJECT / "claims.yaml", root / "claims.yaml")
        return judge_results(root)


def _recompute_by_its_day(archive: Path, differing: dict[str, str]) -> str:
    """Recompute with the code of the commit that the study names, where that is one of ours, and name these rules."""
    texts = "\n".join(f"  {name}: {what}" for name, what in differing.items())
    refusal = f"{archive}: its records give other results than were published.\n{texts}"
    with tempfile.TemporaryDirectory() as name:
        root, code = Path(name, "study"), Path(name, "code")
        unpack(archive, root)
        commit = str(read_environments(root)[0]["git_commit"])
        if not _COMMIT.fullmatch(commit) or _git("merge-base", "--is-ancestor", commit, "HEAD") is None:
            raise InputError(refusal)
        packed = _git("archive", commit)
        if packed is None:
            raise InputError(refusal)
        with tarfile.open(fileobj=io.BytesIO(packed)) as file:
            file.extractall(code, filter="data")
        copy = Path(shutil.copy(archive, Path(name, "crate.zip")))
        done = subprocess.run(
            [sys.executable, "-m", "stages.report", "--from", str(copy)],
            cwd=code,
            env={"PATH": os.environ.get("PATH", ""), "HOME": name, "PYTHONPATH": str(code)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise InputError(f"{refusal}\nNor does it recompute with the code of its commit, {commit[:12]}.")
    return f"the rules of its day, commit {commit[:12]}"


def _git(*arguments: str) -> bytes | None:
    """Return what git prints of this project, or None where it fails or there is no git."""
    try:
        return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
