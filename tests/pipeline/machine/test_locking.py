"""One writer a run: who is refused, what a dead or a stopped process keeps, and a run that comes too late."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPOSITORY, make_record, small_study, write_small_run

from pipeline.comparison.finished_runs import read_record
from pipeline.errors import InputError
from pipeline.machine.locking import LOCKS, alone
from pipeline.study.schema import RunKey
from pipeline.training import run

KEY = RunKey("wide", "float32", 0)
LOCK = LOCKS / "runs-wide-float32-seed-0.lock"
HOLD = """
import pathlib, sys, time
from pipeline.machine.locking import alone
with alone(pathlib.Path(sys.argv[1]), "it"):
    print("holds it", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def holder(workspace) -> Iterator[subprocess.Popen[str]]:
    with hold(workspace / LOCK) as process:
        yield process
        process.kill()


def hold(path: Path, seconds: float = 600) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(path), str(seconds)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "holds it\n"
    return process


def train(workspace):
    return run.train(small_study(), KEY, time.perf_counter(), workspace)


@pytest.mark.parametrize("stopped", [False, True], ids=["at work", "stopped"])
def test_a_run_that_another_process_makes_is_refused(workspace, holder, monkeypatch, stopped):
    monkeypatch.setattr(run, "PATIENCE_SECONDS", 0)
    if stopped:
        holder.send_signal(signal.SIGSTOP)
    with pytest.raises(
        InputError, match=rf"runs/wide/float32/seed-0 is being made by process {holder.pid} on .+ since"
    ):
        train(workspace)
    assert not (workspace / "runs").exists()


def test_the_lock_of_a_dead_process_is_no_lock(workspace, holder):
    holder.kill()
    holder.wait()
    with alone(workspace / LOCK, "it"):
        pass


def test_a_process_that_is_about_to_end_is_waited_for(tmp_path):
    with hold(tmp_path / "lock", seconds=0.5), alone(tmp_path / "lock", "it", patience_seconds=30):
        pass


def test_a_run_that_comes_too_late_replaces_none(workspace, monkeypatch):
    """As when a process is stopped, the study is finished without it, and it goes on."""
    finished = make_record(KEY, peak_memory_bytes=1)

    def meanwhile(_, epoch, *__):
        if epoch.epoch == 1:
            write_small_run(workspace, finished, 2.0, 1.0)

    monkeypatch.setattr(run, "print_epoch", meanwhile)
    with pytest.raises(InputError, match=r"runs/wide/float32/seed-0 was finished by another process while this one"):
        train(workspace)
    assert read_record(KEY, workspace).memory.peak_bytes == 1
    assert [path.name for path in (workspace / "runs" / "wide" / "float32").iterdir()] == ["seed-0"]


def test_a_run_that_was_there_before_is_made_anew_where_it_is_asked_for(workspace):
    write_small_run(workspace, make_record(KEY, peak_memory_bytes=1), 2.0, 1.0)
    train(workspace)
    assert read_record(KEY, workspace).memory.peak_bytes != 1
