"""One run as two tasks of `srun`, on two nodes of a real Slurm."""

import json
import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY

PROBE = REPOSITORY / "tests" / "engines" / "engine_probe.py"


def losses(folder, number: int, *launcher: str) -> list:
    """What each process reports of a run on `number` devices."""
    environment = os.environ | {
        "KERAS_BACKEND": "jax",
        "EMULATED_DEVICES": "1",
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}",
    }
    command = [*launcher, sys.executable, str(PROBE), "devices", str(folder), str(number)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [json.loads(line)["losses"] for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.usefixtures("slurm")
def test_two_tasks_on_two_nodes_train_as_one_process(workspace):
    (one,) = losses(workspace, 1)
    first, second = losses(workspace, 2, "srun", "--nodes=2", "--ntasks=2")
    assert first == second == pytest.approx(one, rel=1e-5)
    record = workspace / "runs" / "wide" / "float32" / "seed-0" / "record.json"
    assert json.loads(record.read_text())["planned"]["devices"] == 2
