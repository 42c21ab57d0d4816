"""Run DVC, leave nothing of it running when it is told to end, and say what to do where it fails."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import IO, cast

import psutil

from pipeline.machine.job import ENDING, when_it_ends

END_SECONDS = 5  # for a process that was told to end
AGAIN = "then `make repro` goes on from there: what is finished stays."
GOES_ON = "`make repro` goes on after the last whole epoch."
MEMORY = "memory ran out (see `dmesg`). End what else needs memory"
# By what DVC's words have in them; the first that fits.
REMEDIES = {
    "was ended by SIGKILL": f"Probably {MEMORY}; {AGAIN}",
    "was ended by SIG": GOES_ON,
    "No space left|Disk quota exceeded": f"Make room on the disk; {AGAIN}",
    "acquire lock|is busy": f"Another DVC command works in this folder. Wait until it has ended, or end it; {AGAIN}",
    "is not a git repository": f"DVC works in a git repository. Clone this project with git, or run: git init; {AGAIN}",
    r"dvc\.lock": f"Remove dvc.lock: finished runs are found in DVC's cache; {AGAIN}",
}
_EXITED = re.compile(r"exited with (-?\d+)")


class Ended(BaseException):
    """Tell of a signal that ends the command; like KeyboardInterrupt, it is no fault of the code that was running."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def run_dvc(take: Callable[[str], None], *command: str) -> int:
    """Run a command of DVC, hand on each line that it and its stages print, and return its exit status.

    Raises:
        Ended: by a signal, or because what started this process has ended. No process of the study is left then.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise Ended(number)

    before = {name: handler for name in ENDING if (handler := signal.getsignal(name)) != signal.SIG_IGN}
    for name in before:
        signal.signal(name, end)
    with subprocess.Popen(
        [sys.executable, "-m", "dvc", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=_end_with_parent,
    ) as process:
        try:
            when_it_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
            for line in cast(IO[str], process.stdout):
                take(line)
            status = process.wait()
        finally:
            for name in ENDING:
                signal.signal(name, signal.SIG_IGN)
            _end(process)
    for name, handler in before.items():
        signal.signal(name, handler)
    return status


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


def exit_status(words: str) -> int | None:
    """Return the exit status of the stage, where DVC's `words` have one; negative or above 128 for a signal."""
    found = _EXITED.search(words)
    return int(found[1]) if found else None


def remedy(words: str, stage: str | None) -> str:
    """Return what to do, given DVC's own `words`, and the stage that failed where it was one."""
    status = exit_status(words)
    if stage and status is not None:
        return _of_a_stage(stage, status)
    for pattern, told in REMEDIES.items():
        if re.search(pattern, words):
            return told
    return f"dvc repro --verbose {stage or ''}".rstrip() + f" says more. Mend what it names; {AGAIN}"


def _of_a_stage(stage: str, status: int) -> str:
    by_itself = f"dvc repro --single-item {stage} tries it by itself; {AGAIN}"
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return f"It was killed, probably because {MEMORY}, or take a smaller batch_size; {AGAIN}"
    if number in ENDING:
        return f"It was told to end ({signal.Signals(number).name}); {GOES_ON}"
    if 0 < number < signal.NSIG:
        return f"The process broke down ({signal.strsignal(number)}). {by_itself}"
    if status == 2:
        return f"Mend what its message above names; {AGAIN}"
    return GOES_ON if status == 75 else f"Its message is above. {by_itself}"
