"""Runs in children of a warm process: the records of runs by themselves, and nothing left of them however they end."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml
from conftest import REPOSITORY, benchmark, small_study
from endings import gone, wait_for

from pipeline.comparison.finished_runs import read_predictions, read_record
from pipeline.machine.engine_choice import kernels_for
from pipeline.machine.warm import WarmProcesses
from pipeline.study.schema import RunKey, Study
from stages.repro import warm_commands

KEY = RunKey("wide", "float32", 0)
SECONDS = 10
# With the packages of whatever runtime.
TRAIN = """
import runpy
from pipeline.machine import environment
environment.installed_runtime = lambda: None
runpy.run_module("stages.train", run_name="__main__", alter_sys=True)
"""
NETWORK = {
    "name": "efficientnet",
    "depth": 0.1,
    "width": 0.1,
    "batch_norm_momentum": 0.8,
    "source": "pipeline/models/efficientnet.py",
}
VARIANTS = {
    "float32": {"policy": "float32", "batch_multiplier": 1},
    "float32_2x": {"policy": "float32", "batch_multiplier": 2, "epoch_multiplier": 2},
    "mixed_float16": {"policy": "mixed_float16", "batch_multiplier": 1},
    "mixed_bfloat16": {"policy": "mixed_bfloat16", "batch_multiplier": 1, "benchmarks": ["wide"]},
    "custom": {"policy": "mixed_float16", "batch_multiplier": 1, "loop": "custom", "benchmarks": ["wide"]},
    "fixed": {
        "policy": "mixed_float16",
        "batch_multiplier": 1,
        "loss_scale": {"mode": "fixed", "value": 1024},
        "benchmarks": ["wide"],
    },
}


def studied(folder: Path, engine: str = "tensorflow", **changes) -> Study:
    """A study on this engine, which is that of the warm process whatever trains in this one."""
    variants = {name: values | {"jit_compile": engine == "jax"} for name, values in VARIANTS.items()}
    study = small_study(variants=variants, engine=engine, runtime="tpu" if engine == "jax" else "cpu", **changes)
    (folder / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    return study


def train(folder: Path, key: RunKey = KEY) -> psutil.Popen:
    """What is printed goes to a file: nobody has to read it for the run to end."""
    command = [sys.executable, "-c", TRAIN, "--benchmark", key.benchmark, "--variant", key.variant]
    with (folder / "said").open("w") as output:
        return psutil.Popen(
            [*command, "--seed", str(key.seed)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a background start ignores
        )


def said(folder: Path) -> str:
    return (folder / "said").read_text()


def lasting(folder: Path, key: RunKey) -> dict:
    """What a run left, but for its seconds, its load and the pages of libraries that it touched."""
    record = read_record(key, folder)
    values = record.model_dump(exclude={"times", "disturbance", "started_at", "warm"})
    del values["environment"]["load_average"], values["memory"]["peak_bytes"]
    with (folder / key.directory / "epochs.csv").open(newline="") as file:
        epochs = [{name: row[name] for name in row if not name.endswith("_seconds")} for row in csv.DictReader(file)]
    return values | {"epochs": epochs, "predicted": read_predictions(record, folder).tolist()}


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_a_warm_run_is_the_run_it_would_be_by_itself(workspace, engine):
    networks = {"wide": benchmark(units=16), "narrow": benchmark(units=8, model=NETWORK)}
    study = studied(workspace, engine, seeds=[0], benchmarks=networks)
    keys = study.runs()
    if engine == "jax":  # which compiles for a minute
        keys = [key for key in keys if key.benchmark == "wide" and key.variant in ("float32", "mixed_float16")]
    left, peaks = [], []
    for commands in ({}, warm_commands(study)):
        with WarmProcesses(commands):
            for key in keys:
                run = train(workspace, key)
                assert run.wait(300) == 0, said(workspace)
        assert {read_record(key, workspace).warm for key in keys} == {bool(commands)}
        left.append([lasting(workspace, key) for key in keys])
        peaks.append([read_record(key, workspace).memory.peak_bytes for key in keys])
    assert left[0] == left[1]
    # That of the run alone: no more than by itself, because pages of the libraries that it never touched are not its.
    assert all(own / 2 < warm < 1.05 * own for own, warm in zip(*peaks, strict=True))


SLEEP = """
import os, time
from pathlib import Path
def build(spec):
    if Path("memory").exists():
        raise MemoryError
    Path("trains").write_text(str(os.getpid()))
    time.sleep(1000)
"""


@pytest.fixture
def asleep(workspace) -> Path:
    """A folder whose runs never build their model."""
    (workspace / "mine.py").write_text(SLEEP)
    model = {"name": "mine:build", "source": "mine.py"}
    studied(workspace, seeds=[0], benchmarks={"wide": benchmark(units=8, model=model), "narrow": benchmark(units=8)})
    return workspace


def child_of(folder: Path) -> psutil.Process:
    wait_for((folder / "trains").exists, 60)
    wait_for((folder / "trains").read_text, 60)
    return psutil.Process(int((folder / "trains").read_text()))


def test_a_warm_run_that_is_killed_ends_as_one_by_itself(asleep):
    with WarmProcesses(warm_commands(small_study())):
        run = train(asleep)
        child = child_of(asleep)
        assert child.ppid() != run.pid
        child.kill()
        assert run.wait(SECONDS) == -signal.SIGKILL, said(asleep)


def test_a_warm_run_that_is_too_slow_or_out_of_memory_has_that_outcome(asleep):
    study = yaml.safe_load((asleep / "params.yaml").read_text())
    (asleep / "params.yaml").write_text(yaml.safe_dump(study | {"max_run_seconds": 8.0}))
    with WarmProcesses(warm_commands(small_study())):
        assert train(asleep).wait(60) == 0, said(asleep)
        assert read_record(KEY, asleep).outcome == "too_slow"
        (asleep / "memory").touch()
        assert train(asleep).wait(60) == 0, said(asleep)
    record = json.loads((asleep / KEY.directory / "record.json").read_text())
    assert (record["outcome"], record["warm"]) == ("out_of_memory", True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("whom", ["run", "warm process"])
def test_whoever_is_ended_nothing_of_the_run_stays(asleep, whom, number):
    others = psutil.Process().children()  # such as a Docker that other tests started
    with WarmProcesses(warm_commands(small_study())):
        run = train(asleep)
        child = child_of(asleep)
        (run if whom == "run" else child.parent()).send_signal(number)
        run.wait(SECONDS)
        wait_for(lambda: gone(child), SECONDS)
        if whom == "warm process":  # the next run is made without
            (asleep / "memory").touch()
            assert train(asleep).wait(60) == 0, said(asleep)
            assert not read_record(KEY, asleep).warm
    assert psutil.Process().children() == others


def test_it_ends_with_the_command_that_it_belongs_to(asleep):
    holder = f"""
import sys, time
from pipeline.machine.warm import WarmProcesses
with WarmProcesses({{{kernels_for(["float32"])!r}: [sys.executable, "-m", "stages.warm", "tensorflow", "float32"]}}):
    import os
    print(os.environ["WARM_PROCESSES"], flush=True)
    time.sleep(1000)
"""
    made = subprocess.Popen([sys.executable, "-c", holder], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    with made.stdout as told:
        os.environ["WARM_PROCESSES"] = told.readline().strip()
    try:
        run = train(asleep)
        child = child_of(asleep)
        warm = child.parent()
        made.kill()
        made.wait(SECONDS)
        warm.wait(SECONDS)
        run.wait(SECONDS)
        wait_for(lambda: gone(child), 60)
    finally:
        del os.environ["WARM_PROCESSES"]
