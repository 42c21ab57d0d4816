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

from pipeline.machine.job import ENDING, end_with_it
from pipeline.machine.warm import Child
from pipeline.records.schema import RunRecord
from pipeline.study.schema import RunKey, Study

A_DAY = 86400.0


def fork() -> Child:
    """Go on in two processes: return the child, with a pipe from it; in the child, one whose `pid` is 0."""
    ours, theirs = Pipe()
    if pid := os.fork():
        theirs.close()
        return Child(pid, ours)
    ours.close()
    return Child(0, theirs)


def end_with_parent(pipe: Connection) -> None:
    """End this process, a child, with its parent, and on each signal that ends a process, whatever call it is in.

    Args:
        pipe: to the parent, which sends nothing more.
    """
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)

    def end() -> None:
        with contextlib.suppress(OSError, EOFError):
            pipe.recv()  # until it is gone
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()


def wait(child: Child, study: Study, key: RunKey, tell: Callable[[RunRecord], None]) -> int:
    """Wait until the run `key` has ended in `child`, and return its exit status; where a signal ended it, end so too.

    A child that has not finished within the study's `max_run_seconds` is ended, wherever it is. `tell` is told of the
    record of such a run. The limit counts from when the child has told where it trains.

    Args:
        child: sends what is known of the run through its pipe, a `SoFar` at a time.

    Raises:
        InputError: the run was too slow, and finished by another process in the meantime; that one stays.
    """
    ended = threading.Event()

    def end(*_: Any) -> None:
        ended.set()
        child.send(signal.SIGKILL)

    signal.signal(signal.SIGUSR1, lambda *_: child.send(signal.SIGUSR1))
    end_with_it("the same command goes on after the last whole epoch.", first=end)
    from pipeline.machine.disturbance import Watch  # with the signals blocked: what it imports starts threads
    from pipeline.records.writing import finished_at
    from pipeline.training.so_far import SoFar, finish

    watch, finished_before = Watch(pid=child.pid), finished_at(key.directory)
    so_far: SoFar | None = None
    left = A_DAY
    with contextlib.suppress(OSError, EOFError):  # the child has ended
        while left > 0:
            if child.pipe.poll(min(left, A_DAY)):
                so_far = child.pipe.recv()
            if so_far and study.max_run_seconds:
                left = study.max_run_seconds - so_far.seconds()
        watch.look()  # or the child's work would count as that of others
        child.send(signal.SIGKILL)
    status = child.wait()
    if so_far and left <= 0 and os.WIFSIGNALED(status):
        if finished_at(key.directory) in (None, finished_before):  # not in the last moment
            tell(finish(study, key, so_far, "too_slow", watch, Path(), finished_before))
        return 0
    if os.WIFSIGNALED(status):
        if not ended.is_set():
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)  # which ends a run that does not listen yet
            os.kill(os.getpid(), os.WTERMSIG(status))
        threading.Event().wait()  # until the signal, or who sent one before, ends this process
    return os.WEXITSTATUS(status)
