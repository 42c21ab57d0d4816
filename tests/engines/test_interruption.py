"""Runs whose process is killed, on both engines: what goes on, and what it ends with."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
import yaml
from conftest import REPOSITORY, benchmark, small_study
from endings import gone, wait_for
from engines.starting import ENGINES, PROBE, start
from projects import PROFILE, STUB_ENVIRONMENT, dense_study, make_project

FLEETING = {"train_seconds", "validation_seconds", "since_start"}
NETWORKS = {"batch norm": 0, "dense": 1, "dense, the loop written out": 2}


def run(engine: str, folder: Path, network: str, killed_in_epoch: int = 0) -> subprocess.CompletedProcess[str]:
    arguments = [str(PROBE), "killed", str(folder), str(NETWORKS[network]), str(killed_in_epoch)]
    return start(engine, *arguments, check=killed_in_epoch == 0)


def epochs(folder: Path) -> list[dict[str, str]]:
    with (folder / "runs" / "wide" / "mixed" / "seed-0" / "epochs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_run_goes_on_and_ends_with_the_same_bits(workspace, engine, network):
    """Killed in its second epoch and again in its fourth: the weights of an undisturbed run, bit for bit."""
    whole = json.loads(run(engine, workspace, network).stdout.splitlines()[-1])
    expected = epochs(workspace)
    assert (whole["resumed"], whole["times"]["excluded_epochs"]) == (False, [1])

    for epoch in (2, 4):
        assert run(engine, workspace, network, killed_in_epoch=epoch).returncode == -signal.SIGKILL
    resumed = json.loads(run(engine, workspace, network).stdout.splitlines()[-1])
    assert resumed["final_weights_sha256"] == whole["final_weights_sha256"]
    assert resumed["scores"] == whole["scores"]
    assert (resumed["resumed"], resumed["times"]["excluded_epochs"]) == (True, [1, 2, 4])
    assert [row["since_start"] for row in epochs(workspace)] == ["1", "1", "2", "1"]
    for ours, theirs in zip(epochs(workspace), expected, strict=True):
        assert {name: ours[name] for name in ours.keys() - FLEETING} == {
            name: theirs[name] for name in theirs.keys() - FLEETING
        }
    assert not list((workspace / ".cache" / "checkpoints").rglob("*.npz"))


TRAIN = ["-m", "stages.train", "--benchmark", "wide", "--variant", "float32", "--seed", "0"]


def train(folder: Path, number: int = 0, at: str = "") -> tuple[int, str]:
    """Return the exit status of the run and what it said; it gets signal `number` once it has said `at`."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    restored = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background start ignores it
    with subprocess.Popen(
        [sys.executable, *TRAIN],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=restored,
    ) as process:
        said = ""
        for line in process.stdout:
            said += line
            if number and at in line:
                process.send_signal(number)
                number = 0
    return process.returncode, said


@pytest.fixture
def project(workspace: Path) -> Path:
    """A folder in which `stages.train` finds its study and its data."""
    recipe = benchmark(units=16, num_epochs=100)  # four seconds, of which a busy machine may lose two
    study = small_study(benchmarks={"wide": recipe, "narrow": benchmark(units=8)}).model_dump(mode="json")
    (workspace / "params.yaml").write_text(yaml.safe_dump(study))
    (workspace / "pipeline").symlink_to(REPOSITORY / "pipeline")
    return workspace


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [
        (signal.SIGINT, 130, "interrupted: the same command goes on after the last whole epoch."),
        (signal.SIGTERM, 143, "interrupted: the same command goes on after the last whole epoch."),
        (signal.SIGUSR1, 75, "of 100 behind it. The same command goes on from there."),
        (signal.SIGKILL, -9, ""),
    ],
)
def test_a_run_that_is_ended_says_so_and_leaves_its_checkpoint(project, number, status, words):
    ended, shown = train(project, number, "epoch 3/100")
    assert ended == status
    assert words in shown
    assert "Traceback" not in shown
    assert list((project / ".cache" / "checkpoints").rglob("*.npz"))
    if number != signal.SIGTERM:
        return
    assert train(project)[0] == 0
    record = json.loads((project / "runs" / "wide" / "float32" / "seed-0" / "record.json").read_text())
    assert record["resumed"]


@pytest.mark.parametrize("killed", ["parent", "child"])
def test_a_run_ends_with_either_of_its_two_processes(project, killed):
    """As where the system lacks memory and kills one: there is no record, and the run goes on from its checkpoint."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    with psutil.Popen(
        [sys.executable, *TRAIN], cwd=project, env=environment, stdout=subprocess.PIPE, text=True
    ) as parent:
        next(line for line in parent.stdout if "epoch 3/100" in line)
        (child,) = parent.children()
        (parent if killed == "parent" else child).kill()
        assert parent.wait(10) == -signal.SIGKILL
    wait_for(lambda: gone(child), 10)
    assert list((project / ".cache" / "checkpoints").rglob("*.npz"))
    assert not (project / "runs").exists()


def test_after_a_kill_the_next_repro_makes_what_is_unfinished(tmp_path):
    study = dense_study(num_epochs=40) | {"datasets": {"mnist": {"bundled": "mnist"}}}
    study["benchmarks"]["small_dense"]["evaluation_batch_size"] = 1000
    project = tmp_path / "project"
    make_project(project, study, PROFILE)
    repro = [sys.executable, "-m", "dvc", "repro"]
    how = {"cwd": project, "env": STUB_ENVIRONMENT | {"PYTHONPATH": "", "PYTHONUNBUFFERED": "1"}, "text": True}
    subprocess.run([*repro, "train@0-small_dense-float32"], capture_output=True, check=True, **how)
    mixed = project / "runs" / "small_dense" / "mixed" / "seed-0"
    with subprocess.Popen([*repro, "train"], stdout=subprocess.PIPE, start_new_session=True, **how) as process:
        next(line for line in process.stdout if "epoch 1/40" in line)
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.read()
    assert process.returncode != 0
    assert not mixed.exists()

    done = subprocess.run([*repro, "train"], capture_output=True, check=False, **how)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^Running stage '([^']+)'", done.stdout, re.MULTILINE) == ["train@0-small_dense-mixed"]
    assert json.loads((mixed / "record.json").read_text())["outcome"] == "completed"
