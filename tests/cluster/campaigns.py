"""A small study and the commands of campaigns, for the tests of this folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from endings import wait_for
from fake_datasets import write_fake_tfds
from projects import PROFILE, copy_tree, dense_study, run

NUM_EPOCHS = 60  # long enough to be interrupted
STUDY = dense_study(NUM_EPOCHS) | PROFILE | {"seeds": [0, 1, 2, 3], "numerics": "facts"}
CLUSTER = {
    "partition": "test",
    "account": None,
    "time_limit": "00:10:00",
    "cpus": 1,
    "gpus": 0,
    "memory": "1800M",
    "max_jobs": 2,
    "mail": None,
}


def make_project(folder: Path, study: dict) -> None:
    """A copy of this project with a small study, without git and DVC; beside it data sets and a cluster's file."""
    copy_tree(folder, without=("docs/", "tests/", ".git", ".dvc/"))
    (folder / "params.yaml").write_text(yaml.safe_dump(study))
    (folder.parent / "cluster.yaml").write_text(yaml.safe_dump(CLUSTER))
    # Whoever calls git here is told that the user's configuration is broken.
    (folder.parent / "gitconfig").write_text("[broken\n")
    write_fake_tfds(folder.parent / "tfds")


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def campaign(project: Path, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stages.campaign", "--campaign", name]
    command += ["--cluster", str(project.parent / "cluster.yaml")]
    return run(project, *command, env=surroundings(project) | variables)


def surroundings(project: Path) -> dict[str, str]:
    """The environment of who starts a campaign of `project`."""
    beside = {"TFDS_DATA_DIR": str(project.parent / "tfds"), "GIT_CONFIG_GLOBAL": str(project.parent / "gitconfig")}
    environment = os.environ | beside | {"PYTHONPATH": str(project)}
    return environment | {"PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]}


def finish(project: Path, name: str, seconds: float = 900) -> dict:
    """The status of a campaign, once no job is left; its logs where there is none."""
    wait_for(lambda: not output("squeue", "--noheader"), seconds)
    folder = project / "campaigns" / name
    logs = "\n".join(path.read_text()[-1500:] for path in folder.glob("logs/*"))
    assert (folder / "results" / "status.json").exists(), logs
    status = json.loads((folder / "results" / "status.json").read_text())
    assert status["exit_code"] not in (1, 2), logs
    return status
