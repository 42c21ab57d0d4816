"""Runs whose process is killed, on both engines: they resume, and end as if undisturbed."""

import csv
import json
import signal
import subprocess
from pathlib import Path

import pytest
from engines.starting import ENGINES, PROBE, start

FLEETING = {"train_seconds", "validation_seconds", "since_start"}
NETWORKS = {"batch norm": 0, "dense, custom loop": 2}


def run(engine: str, folder: Path, network: str, killed_in_epoch: int = 0) -> subprocess.CompletedProcess[str]:
    arguments = [str(PROBE), "killed", str(folder), str(NETWORKS[network]), str(killed_in_epoch)]
    return start(engine, *arguments, check=killed_in_epoch == 0)


def epochs(folder: Path) -> list[dict[str, str]]:
    with (folder / "runs" / "wide" / "mixed" / "seed-0" / "epochs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_run_resumes_and_ends_with_the_same_weights(workspace, engine, network):
    """Killed in its second epoch and again in its fourth: the weights of an undisturbed run, bit for bit."""
    whole = json.loads(run(engine, workspace, network).stdout.splitlines()[-1])
    expected = epochs(workspace)
    assert not whole["resumed"]

    for epoch in (2, 4):
        assert run(engine, workspace, network, killed_in_epoch=epoch).returncode == -signal.SIGKILL
    resumed = json.loads(run(engine, workspace, network).stdout.splitlines()[-1])
    assert resumed["final_weights_sha256"] == whole["final_weights_sha256"]
    assert resumed["scores"] == whole["scores"]
    assert resumed["resumed"]
    assert [row["since_start"] for row in epochs(workspace)] == ["1", "1", "2", "1"]
    for ours, theirs in zip(epochs(workspace), expected, strict=True):
        assert {name: ours[name] for name in ours.keys() - FLEETING} == {
            name: theirs[name] for name in theirs.keys() - FLEETING
        }
    assert not list(workspace.glob("runs/**/checkpoint"))
