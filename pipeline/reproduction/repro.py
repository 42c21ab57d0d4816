"""Run `dvc repro`, and leave nothing of it running when it is told to end."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import IO, cast

import psutil

from pipeline.machine.job import ENDING, when_it_ends

END_SECONDS = 5  # for a process that was told to end


class Ended(BaseException):
    """Tell of a signal that ends the command; like KeyboardInterrupt, it is no fault of the code that was running."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def reproduce(take: Callable[[str], None]) -> int:
    """Run `dvc repro`, hand on each line that it and its stages print, and return its exit status.

    Raises:
        Ended: by a signal, or because what started this process has ended. No process of the study is left then.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise Ended(number)

    for name in ENDING:
        if signal.getsignal(name) != signal.SIG_IGN:
            signal.signal(name, end)
    process = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=_end_with_parent,
    )
    try:
        when_it_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
        for line in cast(IO[str], process.stdout):
            take(line)
        return process.wait()
    finally:
        for name in ENDING:
            signal.signal(name, signal.SIG_IGN)
        _end(process)


def _end_with_parent() -> None:
    """Have the kernel end this process with the one that started it: nobody else could, where that is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _end(process: subprocess.Popen[str]) -> None:
    """End the processes that DVC runs, so that it tidies up and ends by itself.

    End DVC and whatever is left, if need be.
    """
    if process.poll() is not None:
        return
    dvc = psutil.Process(process.pid)
    children = dvc.children(recursive=True)
    alive, told = [*children, dvc], children or [dvc]
    for number in (signal.SIGTERM if children else signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for each in told:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(number)
        _, told = psutil.wait_procs(alive, timeout=END_SECONDS)
