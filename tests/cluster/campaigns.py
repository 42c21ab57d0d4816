"""A small study and the commands of campaigns, for the tests of this folder."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from fake_datasets import write_fake_tfds
from projects import IDENTITY, PROFILE, dense_study, git, make_project

NUM_EPOCHS = 60  # long enough to be interrupted
FOUR_SEEDS = PROFILE | {"seeds": [0, 1, 2, 3]}
STUDY = dense_study(NUM_EPOCHS) | FOUR_SEEDS
CLUSTER = {
    "meeting_place": "shared_cache",
    "partition": "test",
    "account": None,
    "time_limit": "00:10:00",
    "warning_seconds": 60,
    "cpus": 1,
    "gpus": 0,
    "memory": "1800M",
    "max_jobs": 2,
    "mail": None,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A clone of the project with a small study, nothing of it run."""
    folder = tmp_path_factory.mktemp("campaigns") / "project"
    make_project(folder, dense_study(NUM_EPOCHS), FOUR_SEEDS, without=("docs/",))
    (folder.parent / "cluster.yaml").write_text(yaml.safe_dump(CLUSTER))
    for name, value in (("user.name", "t"), ("user.email", "t@example.org")):
        git(folder, "config", name, value)
    write_fake_tfds(folder.parent / "tfds")
    return folder


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def wait_for(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, output("squeue")
        time.sleep(0.1)


def campaign(
    project: Path, name: str, cluster: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stages.campaign", "--campaign", name]
    command += ["--cluster", str(cluster or project.parent / "cluster.yaml")]
    return subprocess.run(
        command, cwd=project, env=surroundings(project) | variables, capture_output=True, text=True, check=False
    )


def surroundings(project: Path) -> dict[str, str]:
    """The environment of who starts a campaign of `project`."""
    environment = os.environ | IDENTITY | {"PYTHONPATH": str(project), "TFDS_DATA_DIR": str(project.parent / "tfds")}
    return environment | {"PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]}


def finish(project: Path, name: str, seconds: float = 900) -> dict:
    """The status of a campaign, once no job is left; its logs where there is none."""
    wait_for(lambda: not output("squeue", "--noheader"), seconds)
    folder = project / ".campaigns" / name
    logs = "\n".join(path.read_text()[-1500:] for path in folder.glob("logs/*"))
    assert (folder / "status.json").exists(), logs
    status = json.loads((folder / "status.json").read_text())
    assert status["exit_code"] not in (1, 2), logs
    return status
