"""Make the missing runs of a benchmark, each in a child process.

A parent process imports the engine once and forks the children. If a process can't be forked after this import (see
`can_fork`), each child imports the engine itself. The calling process does not import an engine.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.data.datasets import labels_of_test
from pipeline.machine.engine_choice import can_fork, choose_engine, kernels_for
from pipeline.machine.hardware import this_machine
from pipeline.machine.processes import Ended, Line, Parent, limit_seconds, shares
from pipeline.records.run_record import RunRecord
from pipeline.store.identity import TRAINING_CODE, Identity, check_read
from pipeline.store.kept import made, obtain
from pipeline.store.plan import check_packages, keeps_limit, num_stops
from pipeline.store.progress import RunProgress
from pipeline.study.schema import RunKey, Study
from pipeline.training.so_far import SoFar, finish

Tell = Callable[[SoFar], None]


class FailedRunError(Exception):
    """Report that the process of a run ended abnormally.

    `by_signal` is True if a signal ended the process, for example because memory ran out.
    """

    def __init__(self, status: int) -> None:
        self.by_signal = status < 0
        killed = "was killed, probably because memory ran out (see `dmesg`)"
        super().__init__(f"its process {killed if status == -signal.SIGKILL else 'failed; see its output above'}")


def make_runs(
    study: Study, benchmark: str, wanted: dict[RunKey, Identity], check_model: Callable[[], None]
) -> dict[RunKey, FailedRunError]:
    """Put each wanted run in its place, from the store or by training, and print the progress.

    Return an error for each run whose process ended abnormally. If no signal ended such a process, start no further
    runs.

    Args:
        wanted: the identity of each wanted run of `benchmark`.
        check_model: called before the first missing run starts; raises an error if the model can't be trained.

    Raises:
        InputError: `check_model` or a run raised it, a run was made with other versions of the packages (see
            `check_packages`), or a file that the runs read was edited meanwhile.
    """
    counts = partial(keeps_limit, study)
    there = {key: folder for key, of in wanted.items() if (folder := made(key.directory, of, counts))}
    missing = [key for key in wanted if key not in there]
    for key in missing:
        check_packages(key.directory, wanted[key])
    if missing:
        check_model()
    failed: dict[RunKey, FailedRunError] = {}
    if not wanted:
        return failed
    print(f"{benchmark}: {len(missing)} of {len(wanted)} runs to make", flush=True)
    at_once = study.runs_at_once.get(benchmark, 1) if study.fits(this_machine().memory_bytes) else 1
    took = {key: _record_in(folder).times.run_seconds for key, folder in there.items()}
    recipe = study.benchmarks[benchmark]
    num_epochs = {name: recipe.num_epochs_of(variant) for name, variant in study.variants.items()}
    progress = RunProgress(missing, took, num_epochs, at_once)
    with ThreadPoolExecutor(at_once) as pool, Makers(study, at_once) as makers:

        def make(key: RunKey, folder: Path) -> None:
            progress.begin(key)
            stopped = made(key.directory, wanted[key], lambda _: True)
            stops = num_stops(study, stopped) if stopped else 0
            makers.make(key, wanted[key], partial(progress.grow, key), folder, stops)
            progress.end(key, _record_in(folder))

        def have(key: RunKey) -> None:
            if any(not error.by_signal for error in failed.values()):  # a fault in the code would make every run fail
                return
            try:
                obtain(key.directory, wanted[key], partial(make, key), counts)
            except FailedRunError as error:
                failed[key] = error

        try:
            for done in as_completed([pool.submit(have, key) for key in wanted]):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _record_in(folder: Path) -> RunRecord:
    return RunRecord.model_validate_json((folder / "record.json").read_bytes())


class Makers:
    """Make runs, each in a child process. Several threads may call `make`, each for a different run.

    For each kind of kernels (see `kernels_for`), one parent process forks the children. `make` starts this parent when
    the first run needs these kernels.

    On a CPU, runs that are made side by side divide the cores among themselves. Otherwise, each run would start one
    thread for each core. With two runs at once on two cores, 28 runs of a small dense network took 43 s with the cores
    divided and 62 s without.

    Args:
        num_at_once: the largest number of runs that are made side by side.
    """

    def __init__(self, study: Study, num_at_once: int) -> None:
        self._study, self._num_at_once = study, num_at_once
        num_shares = num_at_once if this_machine().kind == "cpu" else 1
        self._cores = shares(sorted(os.sched_getaffinity(0)), num_shares) * (num_at_once // num_shares)  # free shares
        self._parents = ExitStack()
        self._forking: dict[str, tuple[Parent, list[Line]]] = {}  # by kernels
        self._starting = threading.Lock()
        self._has_ended = False

    def __enter__(self) -> "Makers":
        return self

    def __exit__(self, *_: object) -> None:
        with self._starting:
            self._has_ended = True  # from now on, no thread may begin a run
            self._parents.close()

    def make(self, key: RunKey, of: Identity, tell: Tell, folder: Path, num_stops: int = 0) -> None:
        """Make a run of the identity `of` in `folder`.

        A signal ends a run that exceeds the study's `max_run_seconds`. The record then says `too_slow`.

        Args:
            tell: called with all notes on the run, each time the run adds a note.
            num_stops: how many times in a row earlier commands have stopped this run at the same limit.

        Raises:
            InputError: the run raised it, for example because files were edited and no longer match `of`.
            FailedRunError: the run's process ended abnormally.
            CancelledError: the `with` block of this object has ended.
        """
        so_far: SoFar | None = None
        with self._line_for(key, of) as (line, cores):
            line.start(make_run, self._study, key, of, folder, cores)
            for message in line.messages():
                if isinstance(message, SoFar):
                    so_far = message
                    tell(so_far)
                elif message == Ended(-signal.SIGALRM) and so_far:
                    labels = labels_of_test(self._study.benchmarks[key.benchmark].dataset)
                    finish(self._study, key, so_far, "too_slow", labels, folder, num_stops=num_stops + 1)
                elif message != Ended(0):
                    raise FailedRunError(message.status)

    @contextmanager
    def _line_for(self, key: RunKey, of: Identity) -> Iterator[tuple[Line, Sequence[int]]]:
        policy = self._study.variants[key.variant].policy
        needed = kernels_for([policy])
        with self._starting:
            if self._has_ended:
                raise CancelledError
            if needed not in self._forking or self._forking[needed][0].has_ended:
                check = partial(check_read, self._study, key.benchmark, TRAINING_CODE, of)
                parent = self._parents.enter_context(Parent(self._num_at_once, import_training, policy, check))
                self._forking[needed] = parent, [*parent.lines]
            free = self._forking[needed][1]
            line, cores = free.pop(), self._cores.pop()
        try:
            yield line, cores
        finally:
            line.end()
            free.append(line)
            self._cores.append(cores)


def import_training(policy: str, check_read: Callable[[], None]) -> None:
    """Choose the engine for `policy`. If `can_fork()`, also import the training code. Use no device."""
    choose_engine([policy])
    if can_fork():
        try:
            import pipeline.training.run  # noqa: F401
        finally:
            check_read()  # code that is being edited may fail to import


def make_run(pipe: Any, study: Study, key: RunKey, of: Identity, folder: Path, cores: Sequence[int]) -> None:
    """Make a run in this child process, on `cores`. Send all notes on the run through `pipe` each time one is added."""
    os.sched_setaffinity(0, cores)
    choose_engine([study.variants[key.variant].policy])
    from pipeline.training.run import train

    def tell(so_far: SoFar) -> None:
        if study.max_run_seconds and not so_far.epochs[len(so_far.earlier.epochs) :]:
            # Start the timer at the first notes, because a record of a stopped run needs them. Correct the timer at the
            # notes before the first epoch, because a checkpoint may add the time of earlier processes.
            limit_seconds(max(study.max_run_seconds - so_far.seconds(), 1e-3))
        pipe.send(so_far)

    train(study, key, folder, tell, partial(check_read, study, key.benchmark, TRAINING_CODE, of))
    limit_seconds(0)
