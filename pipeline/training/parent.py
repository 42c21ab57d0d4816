"""The process that waits for a run: its child trains; it ends the child at the limit, and records what that had done.

It needs no engine, and the memory of a run is that of the child alone.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pipeline.machine.job import ENDING, clear_line, end_with_it
from pipeline.records.schema import RunRecord
from pipeline.study.schema import RunKey, Study

A_DAY = 86400.0


def fork() -> tuple[int, Connection]:
    """Go on in two processes: return the child and the end of a pipe from it; in the child 0 and the pipe's other end.

    The child ends with this process, and on each signal that ends a process, whatever call it is in.
    """
    ours, theirs = Pipe()
    if child := os.fork():
        theirs.close()
        return child, ours
    ours.close()
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)

    def end_with_parent() -> None:
        with contextlib.suppress(OSError, EOFError):
            theirs.recv()  # which says nothing, until it is gone
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    return 0, theirs


def wait(child: int, told: Connection, study: Study, key: RunKey, tell: Callable[[RunRecord], None]) -> int:
    """Wait until the run `key` has ended in `child`, and return its exit status; where a signal ended it, end so too.

    A child that has not finished within the study's `max_run_seconds` is ended, wherever it is. `tell` is told of the
    record of such a run. The limit counts from when the child has told where it trains.

    Args:
        told: the child sends what is known of the run through it, a `SoFar` at a time.

    Raises:
        InputError: the run was too slow, and finished by another process in the meantime; that one stays.
    """
    ended = threading.Event()

    def end(*_: Any) -> None:
        ended.set()
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGUSR1, lambda *_: os.kill(child, signal.SIGUSR1))
    end_with_it("the same command goes on after the last whole epoch.", first=end)
    from pipeline.machine.disturbance import Watch  # with the signals blocked: what it imports starts threads
    from pipeline.records.writing import finished_at
    from pipeline.training.so_far import SoFar, finish

    watch, finished_before = Watch(), finished_at(key.directory)
    so_far: SoFar | None = None
    left = A_DAY
    with contextlib.suppress(OSError, EOFError):  # the child has ended
        while left > 0:
            if told.poll(min(left, A_DAY)):
                so_far = told.recv()
            if so_far and study.max_run_seconds:
                left = study.max_run_seconds - so_far.seconds()
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if so_far and left <= 0 and os.WIFSIGNALED(status):
        if finished_at(key.directory) in (None, finished_before):  # not in the last moment
            clear_line()
            tell(finish(study, key, so_far, "too_slow", watch, Path(), finished_before))
        return 0
    if os.WIFSIGNALED(status):
        if not ended.is_set():
            os.kill(os.getpid(), os.WTERMSIG(status))
        threading.Event().wait()  # until the signal, or who sent one before, ends this process
    return os.WEXITSTATUS(status)
