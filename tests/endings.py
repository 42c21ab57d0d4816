"""A training that never returns to Python, and all that started it, for tests that end one of them."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
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


@contextmanager
def started(folder: Path, *command: str) -> Iterator[tuple[psutil.Popen, list[psutil.Process]]]:
    """The process of `command`, and its descendants down to the one that trains, which trains now."""
    make_stub(folder, STAGES)
    with (folder / "Makefile").open("a") as file:
        file.write("outer:\n\t@$(MAKE) --no-print-directory study\n")
    (folder / "training.py").write_text(TRAINING)
    # A shell that stays beside what it runs, as those that don't end in `exec` do.
    (folder / "sh").write_text('#!/bin/sh\n/bin/sh "$@"\nexit $?\n')
    (folder / "sh").chmod(0o755)
    with (folder / "said").open("w") as said:
        first = psutil.Popen(
            command,
            cwd=folder,
            env=STUB_ENVIRONMENT | {"SHELL": str(folder / "sh")},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=receive_signals,
        )
    others: list[psutil.Process] = []
    try:
        wait_for((folder / "trains").exists, 60, first)
        others.extend(first.children(recursive=True))
        yield first, others
    finally:
        for process in [first, *others]:
            if process.is_running():
                process.kill()
        first.wait(SECONDS)


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


def end_one(folder: Path, who: str, how: signal.Signals) -> None:
    """End one of those between `make` and training: all end, nothing goes on, and words say what to do."""
    with started(folder, "make", "outer") as (first, others):
        training = find(others, "training.py")
        {
            "make": lambda: first,
            "the command": lambda: find(others, "stages.repro"),
            "DVC": lambda: find(others, "dvc", "repro"),
            "its shell": training.parent,
        }[who]().send_signal(how)
        wait_for(lambda: gone(training), SECONDS)
        wait_for(lambda: all(map(gone, [first, *others])), 2 * SECONDS)
    assert not (folder / "later").exists()
    said = (folder / "said").read_text()
    assert "Traceback" not in said
    if how == signal.SIGTERM and who in ("make", "the command"):
        assert (
            "interrupted (SIGTERM). What is finished stays; the same command goes on after the last whole epoch" in said
        )
    if who in ("DVC", "its shell"):
        assert "what to do: " in said
