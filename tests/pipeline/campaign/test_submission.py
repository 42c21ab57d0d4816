"""What a campaign asks of Slurm, what an element starts, and what submits nothing. tests/cluster has a real Slurm."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, small_study
from projects import git, make_checkout, with_programs

from pipeline.campaign.fan_out import Cluster, shared_stages
from pipeline.study.configuration import read

CLUSTER = REPOSITORY / "cluster" / "slurm" / "cluster.yaml"
PROGRAMS = {
    "sbatch": 'echo "sbatch $*" >> "$CALLED"\n',
    "squeue": "",
    "srun": 'echo "srun $*" >> "$CALLED"; while [[ $1 == --* ]]; do shift; done; exec "$@"\n',
    "dvc": 'echo "dvc $*" >> "$CALLED"; [ "$1 $2" != "cache dir" ] || echo .dvc/cache\n',
}


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """One in which CALLED names what was called."""
    return with_programs(tmp_path / "bin", PROGRAMS) | {"CALLED": str(tmp_path / "called")}


@pytest.fixture
def checkout(tmp_path) -> Path:
    return make_checkout(tmp_path / "checkout", "/.dvc/tmp")


def submit(checkout: Path, environment: dict[str, str], cluster: Path = CLUSTER) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stages.campaign", "--campaign", "c", "--cluster", str(cluster)]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("stages", "alone", "arrays"),
    [
        (shared_stages(small_study()), False, ["--array=0-18%8", "--array=19-20%1"]),  # one speed follows the other
        ([], True, []),
        (["numerics"], True, ["--array=0-0%8"]),
        (["speed@wide", "speed@narrow"], True, ["--array=0-1%8"]),
    ],
)
def test_there_is_a_job_for_what_is_missing_alone(stages, alone, arrays):
    cluster = read(Cluster, CLUSTER).model_copy(update={"exclusive_speed": alone})
    found = cluster.arrays(stages)
    assert [options[0] for options in found] == arrays
    assert alone or all("--exclusive" not in options for options in found)


@pytest.mark.parametrize("stage", ["speed@wide", "numerics"])
def test_speed_is_measured_on_as_many_cpus_as_a_run_has(stage, checkout, environment, tmp_path):
    """A node to itself gives a job all of its CPUs."""
    folder = tmp_path / "campaign"
    folder.mkdir()
    git(tmp_path, "clone", "--quiet", str(checkout), str(folder / "collector"))
    (folder / "collector" / ".dvc" / "config.local").touch()
    (folder / "stages.txt").write_text(f"{stage}\n")
    job = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0", "SLURM_CPUS_PER_TASK": "2"}
    command = ["bash", str(REPOSITORY / "cluster" / "slurm" / "run.sh"), str(folder)]
    subprocess.run(command, env=environment | job, check=True)
    step = ["srun --ntasks=1 --exact --cpus-per-task=2 dvc repro --single-item speed@wide"]
    called = Path(environment["CALLED"]).read_text().splitlines()
    assert [line for line in called if line.startswith("srun")] == (step if stage == "speed@wide" else [])
    assert called[-1] == f"dvc repro --single-item {stage}"


HTTP = "[core]\nremote = meeting\n['remote \"meeting\"']\nurl = http://localhost:9\n"


@pytest.mark.parametrize(
    ("site", "dvc_config", "message"),
    [
        ({"partitoin": "x"}, "", "partitoin: unknown key. Did you mean 'partition'?"),
        ({}, "\n", "the tree differs from its last commit (M .dvc/config"),
        ({"meeting_place": "remote"}, "", "DVC has no default remote to meet at: dvc remote add --default"),
        ({"meeting_place": "remote"}, HTTP, "DVC shares no runs over HTTP, which the remote meeting speaks"),
        (None, "", "sbatch is not on the path"),
    ],
)
def test_what_cannot_work_submits_nothing(checkout, environment, tmp_path, site, dvc_config, message):
    (tmp_path / "bin" / "dvc").write_text(f'#!/bin/sh\nexec {sys.executable} -m dvc "$@"\n')
    (checkout / ".dvc" / "config").write_text(dvc_config)
    if dvc_config == HTTP:
        git(checkout, "commit", "--quiet", "--all", "-m", "a remote")
    if site is None:
        environment["PATH"] = str(tmp_path)
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump(yaml.safe_load(CLUSTER.read_text()) | (site or {})))
    done = submit(checkout, environment, cluster)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr
    assert not Path(environment["CALLED"]).exists()
    assert not (checkout / ".campaigns" / "c" / "collector").exists()
