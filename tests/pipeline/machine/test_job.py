"""Whoever is ended of those between `make` and a training process: it ends within seconds, and nothing goes on."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from projects import STUB_ENVIRONMENT, make_stub

from pipeline.machine.job import ENDING

# It reads no signal and returns to Python never, like a long call of the engine.
TRAINING = """
import ctypes, pathlib
from pipeline.machine.job import end_with_it
end_with_it("as if in training")
pathlib.Path("trains").touch()
while True:
    ctypes.CDLL(None).usleep(10_000_000)
"""
STAGES = {"train": {"cmd": "python training.py", "outs": ["runs"]}, "later": {"cmd": "touch later", "deps": ["runs"]}}
SECONDS = 6  # that a test waits; it is over within two on a quiet machine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_stub(tmp_path, STAGES)
    with (tmp_path / "Makefile").open("a") as file:
        file.write("outer:\n\t@$(MAKE) --no-print-directory study\n")
    (tmp_path / "training.py").write_text(TRAINING)
    # A shell that stays beside what it runs, as those that don't end in `exec` do.
    (tmp_path / "sh").write_text('#!/bin/sh\n/bin/sh "$@"\nexit $?\n')
    (tmp_path / "sh").chmod(0o755)
    return tmp_path


@pytest.fixture
def start(project: Path) -> Iterator[partial]:
    processes: list[psutil.Process] = []

    def begin(*command: str) -> tuple[psutil.Popen, list[psutil.Process]]:
        """The process of `command`, and its descendants down to the one that trains, which trains now."""
        with (project / "said").open("w") as said:
            first = psutil.Popen(
                command,
                cwd=project,
                env=STUB_ENVIRONMENT | {"SHELL": str(project / "sh")},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=receive_signals,
            )
        processes.append(first)
        wait_for((project / "trains").exists, 60, first)
        processes.extend(first.children(recursive=True))
        return first, processes[1:]

    yield begin
    for process in processes:
        if process.is_running():
            process.kill()
    if processes:
        processes[0].wait(SECONDS)


def receive_signals() -> None:
    """Whatever the tests were started by: a shell in the background takes no SIGINT, and nohup no SIGHUP."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def wait_for(true, seconds: float, process: psutil.Process | None = None) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.05)


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def find(processes: list[psutil.Process], *words: str) -> psutil.Process:
    (found,) = (process for process in processes if set(words) <= set(process.cmdline()[1:]))
    return found


@pytest.mark.parametrize(
    ("who", "how"),
    [
        ("make", signal.SIGTERM),
        ("make", signal.SIGINT),
        ("make", signal.SIGKILL),
        ("the command", signal.SIGTERM),
        ("the command", signal.SIGKILL),
        ("DVC", signal.SIGTERM),
        ("DVC", signal.SIGKILL),
        ("its shell", signal.SIGTERM),
        ("its shell", signal.SIGKILL),
    ],
)
def test_training_ends_with_each_that_started_it(project, start, who, how):
    first, others = start("make", "outer")
    training = find(others, "training.py")
    {
        "make": lambda: first,
        "the command": lambda: find(others, "stages.repro"),
        "DVC": lambda: find(others, "dvc", "repro"),
        "its shell": training.parent,
    }[who]().send_signal(how)
    wait_for(lambda: gone(training), SECONDS)
    wait_for(lambda: all(map(gone, [first, *others])), 2 * SECONDS)
    assert not (project / "later").exists()
    said = (project / "said").read_text()
    assert "Traceback" not in said
    if how == signal.SIGTERM and who in ("make", "the command"):
        assert "interrupted (SIGTERM). What is finished stays; make repro goes on after the last whole epoch." in said
    if who in ("DVC", "its shell"):
        assert "what to do: " in said


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_training_ends_with_a_dvc_that_runs_alone(start, how):
    first, others = start("dvc", "repro")
    first.send_signal(how)
    wait_for(lambda: all(map(gone, others)), SECONDS)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda how: how.name)
def test_a_signal_to_training_itself_ends_it_within_a_call_of_the_engine(project, start, how):
    first, _ = start(sys.executable, "training.py")
    first.send_signal(how)
    wait_for(lambda: first.poll() is not None, SECONDS)
    assert first.returncode == 128 + how
    assert (project / "said").read_text() == "interrupted: as if in training\n"


@pytest.mark.parametrize("job_control", ["set -m", "set +m"])
def test_a_shell_that_put_it_in_the_background_may_end(start, job_control):
    """`nohup make repro &`, then a log-out, or the end of a script: with the script it shares a process group."""
    command = f"{job_control}; make study & while ! [ -e trains ]; do sleep 0.1; done; sleep 1"
    first, others = start("bash", "-c", command)
    wait_for(lambda: first.poll() is not None, SECONDS)
    time.sleep(2.5)
    assert [process for process in others if not gone(process) and process.cmdline()[-1] == "training.py"]


def test_training_that_was_suspended_goes_on(start):
    """Ctrl-Z, and `fg` after more than the second for which it waits for signals."""
    first, _ = start(sys.executable, "training.py")
    first.suspend()
    time.sleep(2.5)
    first.resume()
    time.sleep(2.5)
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    wait_for(lambda: first.poll() is not None, SECONDS)
    assert first.returncode == 128 + signal.SIGTERM
