"""Make the missing runs of a benchmark, each in a child of a process that has imported the engine.

The calling process needs no engine.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from pipeline.data.datasets import labels_of_test
from pipeline.errors import UnfinishedRunError
from pipeline.machine.engine_choice import can_fork, choose_engine, kernels_for
from pipeline.machine.processes import Ended, Line, Parent, limit_seconds
from pipeline.study.schema import RunKey, Study
from pipeline.training.so_far import SoFar, finish

Tell = Callable[[SoFar], None]


class FailedRunError(Exception):
    """Report that a run's process broke down. `by_signal`: a signal ended it, as when memory runs out."""

    def __init__(self, status: int) -> None:
        self.by_signal = status < 0
        if status == -signal.SIGKILL:
            super().__init__("its process was killed, probably because memory ran out (see `dmesg`)")
        elif self.by_signal:
            super().__init__(f"its process broke down ({signal.strsignal(-status)})")
        else:
            super().__init__("its process failed; what it said stands above")


class Makers:
    """Make runs. A process that imports the engine starts when a run first needs its kernels.

    Several threads may call `make`, each for a run of its own.

    Args:
        num_at_once: how many runs are made side by side at most.
    """

    def __init__(self, study: Study, num_at_once: int = 1) -> None:
        self._study, self._num_at_once = study, num_at_once
        self._parents = ExitStack()
        self._forking: dict[str, tuple[Parent, list[Line]]] = {}  # each parent and its free lines, by kernels
        self._busy: set[Line] = set()  # of the runs that are being made
        self._starting = threading.Lock()
        self._warned = threading.Event()

    def __enter__(self) -> "Makers":
        self._handler = signal.signal(signal.SIGUSR1, self._end_soon)  # a scheduler's warning that time is running out
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGUSR1, self._handler)
        self._warned.set()  # no thread may begin another run
        self._parents.close()

    def make(self, key: RunKey, tell: Tell, folder: Path) -> None:
        """Make a run in `folder`, and call `tell` with the run's notes each time they grow.

        A run that exceeds the study's time limit is ended, whatever it is doing, and recorded as too slow.

        Raises:
            InputError: the run raised it.
            FailedRunError: the run's process broke down.
            UnfinishedRunError: SIGUSR1 told this process to end soon.
        """
        so_far: SoFar | None = None
        with self._line_for(key) as line:
            for message in self._talk(line, key, folder):
                if isinstance(message, SoFar):
                    so_far = message
                    tell(so_far)
                elif message == Ended(-signal.SIGALRM) and so_far:
                    labels = labels_of_test(self._study.benchmarks[key.benchmark].dataset)
                    finish(self._study, key, so_far, "too_slow", labels, folder)
                elif message != Ended(0):
                    raise FailedRunError(message.status)

    def _talk(self, line: Line, key: RunKey, folder: Path) -> Iterator[Any]:
        if self._warned.is_set():
            raise UnfinishedRunError(f"{key.directory} is not begun")
        self._busy.add(line)
        line.start(make_run, self._study, key, folder)
        try:
            for message in line.messages():
                if self._warned.is_set():  # again: the child may not have listened yet
                    line.signal(signal.SIGUSR1)
                yield message
        finally:
            self._busy.remove(line)

    @contextmanager
    def _line_for(self, key: RunKey) -> Iterator[Line]:
        policy = self._study.variants[key.variant].policy
        if not can_fork():
            with Parent(1, ignore_warnings) as parent:
                yield parent.lines[0]
            return
        kernels = kernels_for([policy])
        with self._starting:
            if kernels not in self._forking or self._forking[kernels][0].has_ended:
                parent = self._parents.enter_context(Parent(self._num_at_once, import_engine, policy))
                self._forking[kernels] = parent, [*parent.lines]
            free = self._forking[kernels][1]
            line = free.pop()
        try:
            yield line
        finally:
            free.append(line)

    def _end_soon(self, number: int, _: FrameType | None) -> None:
        self._warned.set()
        for line in [*self._busy]:
            line.signal(number)


def ignore_warnings() -> None:
    """Ignore a scheduler's warning that time is running out, until a run listens."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def import_engine(policy: str) -> None:
    """Import what training needs, without touching a device."""
    ignore_warnings()
    choose_engine([policy])
    import pipeline.training.run  # noqa: F401


def make_run(pipe: Any, study: Study, key: RunKey, folder: Path) -> None:
    """Make a run in this process, a child, and send the run's notes through `pipe` each time they grow."""
    ending = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: ending.set())
    choose_engine([study.variants[key.variant].policy])
    from pipeline.training.run import train

    def tell(so_far: SoFar) -> None:
        if study.max_run_seconds and not so_far.epochs[len(so_far.earlier.epochs) :]:
            # The limit starts once the process says where it trains; the time of earlier processes counts too.
            limit_seconds(max(study.max_run_seconds - so_far.seconds(), 1e-3))
        pipe.send(so_far)

    train(study, key, folder, ending, tell, is_warm=can_fork())
    limit_seconds(0)
