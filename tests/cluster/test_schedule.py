"""The line of docs/on-your-cluster.md that starts a campaign by the clock, in the surroundings of a job of cron."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import campaigns
from cluster.campaigns import output, surroundings, wait_for
from conftest import REPOSITORY

project = campaigns.project
PAGE = (REPOSITORY / "docs" / "on-your-cluster.md").read_text()


def documented_line(project: Path) -> str:
    """The page's line for the first of each month, for this checkout."""
    (line,) = set(re.findall(r"^    0 3 1 \* \* (cd /path/to/checkout && make campaign .*)$", PAGE, re.MULTILINE))
    return line.replace("/path/to/checkout", str(project)).replace(
        "CLUSTER=my-cluster.yaml", f"CLUSTER={project.parent}/cluster.yaml"
    )


@pytest.fixture
def scheduled(project) -> Iterator[Path]:
    """A checkout whose packages are there already; what a schedule submits is cancelled in the end."""
    (project / ".venv").mkdir(exist_ok=True)
    for path in (REPOSITORY / ".venv").iterdir():
        if path.name not in ("parser", "ready") and not (project / ".venv" / path.name).exists():
            (project / ".venv" / path.name).symlink_to(path)
    for path in (REPOSITORY / "requirements").iterdir():  # older than what says that the packages are there
        os.utime(project / "requirements" / path.name, (0, 0))
    (project / ".venv" / "parser").touch()
    (project / ".venv" / "ready").write_text("cpu\n")
    yield project
    subprocess.run(["scancel", "--user=root"], check=True)
    wait_for(lambda: not output("squeue", "--noheader"), 60)


@pytest.mark.usefixtures("slurm")
def test_the_crontab_line_submits_a_campaign(scheduled):
    """In what cron gives a job: a shell, nearly no environment, and what stands above the line."""
    above = {name: surroundings(scheduled)[name] for name in ("PATH", "SLURM_CONF", "TFDS_DATA_DIR")}
    environment = {"HOME": str(scheduled.parent), "SHELL": "/bin/sh"} | above
    command = ["/bin/sh", "-c", documented_line(scheduled)]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((scheduled / "campaigns").glob("20*/logs"))
    assert output("squeue", "--noheader")
