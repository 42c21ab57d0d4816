"""Helpers for tests that end processes and check that their children end, too."""

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
SECONDS = 6  # that a test waits; it is over within two on a quiet machine


def start(folder: Path, environment: Mapping[str, str], *command: str) -> psutil.Popen:
    """A command in a session of its own, which receives signals; what it says can be read from its standard output."""
    return psutil.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=receive_signals,
    )


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
