"""A run while it is made: what is known of it so far, and how it ends, also where it is stuck."""

import contextlib
import datetime
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import engine
from pipeline.data.datasets import Dataset
from pipeline.machine import environment
from pipeline.machine.disturbance import Watch, timing_fault
from pipeline.records.planned import planned
from pipeline.records.schema import EpochRecord, Outcome, RunRecord
from pipeline.records.writing import epoch_times, finished_at, write_run
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import Variant
from pipeline.training.checkpoint import Checkpoint, Progress
from pipeline.training.epoch_log import EpochLog
from pipeline.training.progress import ProgressLine

GRACE_SECONDS = 1.0  # by which the first of several processes, which writes the record, outlasts the others


class RunInProgress:
    """A run in progress: `known` holds what is known of it so far, by the names of `RunRecord`.

    Args:
        process: which of the processes of the run this is, and how many there are.
        process_started: `time.perf_counter()` at the start of this process.
        tell: is told of the record once it is written.
    """

    def __init__(
        self,
        study: Study,
        key: RunKey,
        data: Dataset,
        root: Path,
        process: tuple[int, int],
        process_started: float,
        tell: Callable[[RunRecord], None],
    ) -> None:
        self.study, self.key, self.data, self.root, self.process = study, key, data, root, process
        self.epochs: list[EpochRecord] = []
        self.predicted = np.empty(0, np.int64)
        surroundings = environment.describe(study.runtime, engine.accelerators(), engine.version(), engine.kernels())
        started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.known: dict[str, Any] = {"started_at": started_at, "environment": surroundings}
        self.watch = Watch(engine.gpu_places()[: study.devices])
        self.log: EpochLog | None = None
        self.progress: ProgressLine | None = None
        self.checkpoint: Checkpoint | None = None
        self.earlier = Progress([], None)
        self.process_started = process_started
        self._tell = tell
        self._finished_before = finished_at(root / key.directory)
        self._ending = threading.Lock()  # whoever takes it ends the run
        self._timer: threading.Timer | None = None
        self._limit()

    @property
    def benchmark(self) -> Benchmark:
        return self.study.benchmarks[self.key.benchmark]

    @property
    def variant(self) -> Variant:
        return self.study.variants[self.key.variant]

    def seconds(self) -> float:
        """Return how long the run has taken, with the epochs that an earlier process trained."""
        earlier = sum(epoch.train_seconds + epoch.validation_seconds for epoch in self.earlier.epochs)
        return time.perf_counter() - self.process_started + earlier

    def resume(self, earlier: Progress) -> None:
        """Count what an earlier process has done of this run."""
        self.earlier, self.epochs = earlier, earlier.epochs
        self._limit()

    def finish(self, outcome: Outcome) -> RunRecord:
        """Write the run's folder and return its record."""
        self._ending.acquire()
        if self._timer:
            self._timer.cancel()
        record = self._record(outcome)
        if self.process[0] == 0:
            with self.log.folder() if self.log else contextlib.nullcontext() as logs:
                labels, before = self.data.test.labels, self._finished_before
                write_run(self.root, record, self.epochs, labels, self.predicted, logs, before)
        if self.checkpoint:
            self.checkpoint.remove()
        self._tell(record)
        return record

    def wait_if_too_slow(self) -> None:
        """Leave the end to the timer once the time is up: a step fails then because the other processes have ended."""
        if self._timer and self.seconds() > (self.study.max_run_seconds or 0):
            self._timer.join()

    def _limit(self) -> None:
        """End the run, and with it this process, where it lasts longer than the study allows.

        A thread does it, because a single step, or compiling one, may take minutes in which Python is not asked.
        """
        if self._timer:
            self._timer.cancel()
        if self.study.max_run_seconds:
            grace = GRACE_SECONDS if self.process[0] == 0 and self.process[1] > 1 else 0.0
            self._timer = threading.Timer(self.study.max_run_seconds - self.seconds() + grace, self._end_process)
            self._timer.daemon = True
            self._timer.start()

    def _end_process(self) -> None:
        status = 1
        try:
            if self.progress:
                self.progress.close()
            self.finish("too_slow")
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)  # whatever the main thread is in the middle of

    def _record(self, outcome: Outcome) -> RunRecord:
        epochs, data, variant = self.epochs, self.data, self.variant
        last = epochs[-1] if epochs else None
        disturbance = self.known.get("disturbance") or self.watch.finish().worst(self.earlier.disturbance)
        first_epoch_seconds, steady_epoch_seconds, excluded_epochs = epoch_times(epochs)
        num_examples = self.benchmark.num_examples(variant.batch_multiplier)
        values = {
            **self.key._asdict(),
            **dict(zip(("peak_memory_bytes", "peak_memory_kind"), engine.peak_memory(), strict=True)),
            "outcome": outcome,
            "planned": planned(self.study, self.key),
            "overflow": "step skipped" if variant.loss_scale.mode == "dynamic" else "step taken",
            "num_test_examples": len(data.test.labels),
            "num_epochs": len(epochs),
            "first_epoch_seconds": first_epoch_seconds,
            "steady_epoch_seconds": steady_epoch_seconds,
            "images_per_second": num_examples / steady_epoch_seconds if steady_epoch_seconds else None,
            "run_seconds": self.seconds(),
            "max_run_seconds": self.study.max_run_seconds,
            "skipped_steps": last.skipped_steps if last else None,
            "final_loss_scale": last.loss_scale if last else None,
            "final_train_loss": last.train_loss if last and outcome == "completed" else None,
            "final_validation_accuracy": last.validation_accuracy if last and outcome == "completed" else None,
            "data_sha256": data.sha256,
            "resumed": bool(self.earlier.epochs),
            "excluded_epochs": excluded_epochs,
            "timing_fault": timing_fault(disturbance),
            "disturbance": disturbance,
        }
        return RunRecord.model_validate(values | self.known)
