"""The crontab line of docs/on-your-cluster.md, installed and waited for."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.campaigns import STUDY, make_project, output, surroundings, wait_for
from conftest import REPOSITORY
from debian import install


@pytest.fixture
def scheduled(tmp_path) -> Iterator[Path]:
    """A checkout whose packages are there already; what a schedule submits is cancelled in the end."""
    project = tmp_path / "project"
    make_project(project, STUDY)
    (project / ".venv").mkdir()
    for path in (REPOSITORY / ".venv").iterdir():
        if path.name not in ("parser", "ready"):
            (project / ".venv" / path.name).symlink_to(path)
    for path in (REPOSITORY / "requirements").iterdir():  # older than what says that the packages are there
        os.utime(project / "requirements" / path.name, (0, 0))
    (project / ".venv" / "parser").touch()
    (project / ".venv" / "ready").write_text("cpu\n")
    yield project
    subprocess.run(["scancel", "--user=root"], check=True)
    wait_for(lambda: not output("squeue", "--noheader"), 60)


@pytest.mark.usefixtures("slurm")
def test_the_documented_crontab_line_starts_a_campaign(scheduled):
    """It runs every minute in this checkout, by Debian's cron, which gives a job almost no environment."""
    install("cron", "cron")
    page = (REPOSITORY / "docs" / "on-your-cluster.md").read_text()
    (line,) = set(re.findall(r"^    0 3 1 \* \* (cd /path/to/checkout && make campaign .*)$", page, re.MULTILINE))
    line = line.replace("/path/to/checkout", str(scheduled))
    line = line.replace("CLUSTER=my-cluster.yaml", f"CLUSTER={scheduled.parent}/cluster.yaml")
    environment = surroundings(scheduled)
    settings = "".join(f"{name}={environment[name]}\n" for name in ("PATH", "SLURM_CONF", "TFDS_DATA_DIR"))
    with tempfile.NamedTemporaryFile("w", suffix="crontab") as file:
        file.write(f"{settings}* * * * * {line}\n")
        file.flush()
        before = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False).stdout
        subprocess.run(["crontab", file.name], check=True)
    running = subprocess.Popen(["cron", "-f"])
    try:
        wait_for(lambda: list(scheduled.glob("campaigns/20*/logs")) and output("squeue", "--noheader"), 240)
    finally:
        running.terminate()
        running.wait()
        subprocess.run(["crontab", "-"], input=before, text=True, check=True)
