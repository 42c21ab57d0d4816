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

import keras
import numpy as np

from pipeline import engine
from pipeline.data.datasets import Dataset
from pipeline.errors import InputError
from pipeline.machine import environment
from pipeline.machine.disturbance import Watch, timing_fault
from pipeline.records.planned import planned
from pipeline.records.schema import Disturbance, EpochRecord, Outcome, RunRecord
from pipeline.records.writing import epoch_scores, epoch_times, finished_at, write_run
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import Variant
from pipeline.training.checkpoint import Checkpoint, Progress
from pipeline.training.epoch_log import EpochLog
from pipeline.training.progress import ProgressLine


class RunInProgress:
    """A run in progress: what is known of it so far is in `known`, by the names of `RunRecord`, and in its parts.

    Args:
        process_started: `time.perf_counter()` at the start of this process.
        tell: is told of the record once it is written.
    """

    def __init__(
        self,
        study: Study,
        key: RunKey,
        data: Dataset,
        root: Path,
        process_started: float,
        tell: Callable[[RunRecord], None],
    ) -> None:
        self.study, self.key, self.data, self.root = study, key, data, root
        self.epochs: list[EpochRecord] = []
        self.predicted = np.empty(0, np.int64)
        surroundings = environment.describe(study.runtime, engine.accelerators(), engine.version(), engine.kernels())
        started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.known: dict[str, Any] = {"started_at": started_at, "environment": surroundings}
        self.startup_seconds: float | None = None
        self.memory: dict[str, Any] = {}
        self.scores: dict[str, Any] = {}
        self.final_weights_sha256: str | None = None
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

    def save_checkpoint(self, model: keras.Model, disturbance: Disturbance | None) -> None:
        """Keep what is trained so far, unless the run is being ended: then this never returns."""
        with self._ending:
            if self.checkpoint:
                self.checkpoint.save(model, Progress(self.epochs, disturbance))

    def finish(self, outcome: Outcome) -> RunRecord:
        """Write the run's folder and return its record."""
        self._ending.acquire()
        if self._timer:
            self._timer.cancel()
        self.epochs = list(self.epochs)  # where the timer ends the run, the main thread goes on until the process ends
        record = self._record(outcome)
        with self.log.folder() if self.log else contextlib.nullcontext() as logs:
            labels, before, predicted = self.data.test.labels, self._finished_before, self.predicted
            if outcome != "completed":  # the time was up between the test and the end
                predicted = predicted[:0]
            write_run(self.root, record, self.epochs, labels, predicted, logs, before)
        if self.checkpoint:
            self.checkpoint.remove()
        self._tell(record)
        return record

    def _limit(self) -> None:
        """End the run, and with it this process, where it lasts longer than the study allows.

        A thread does it, because a single step, or compiling one, may take minutes in which Python is not asked.
        """
        if self._timer:
            self._timer.cancel()
        if self.study.max_run_seconds:
            self._timer = threading.Timer(self.study.max_run_seconds - self.seconds(), self._end_process)
            self._timer.daemon = True
            self._timer.start()

    def _end_process(self) -> None:
        status = 1
        try:
            if self.progress:
                self.progress.close()
            self.finish("too_slow")
            status = 0
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            status = 2
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)  # whatever the main thread is in the middle of

    def measure_memory(self) -> None:
        """Note the peak of the memory so far."""
        self.memory |= dict(zip(("peak_bytes", "peak_kind"), engine.peak_memory(), strict=True))

    def _record(self, outcome: Outcome) -> RunRecord:
        epochs, variant = self.epochs, self.variant
        disturbance = self.known.get("disturbance") or self.watch.finish().worst(self.earlier.disturbance)
        if "peak_bytes" not in self.memory:
            self.measure_memory()
        completed = outcome == "completed"  # or the time was up between the test and the end
        values = {
            **self.key._asdict(),
            "outcome": outcome,
            "planned": planned(self.study, self.key),
            "overflow": "step skipped" if variant.loss_scale.mode == "dynamic" else "step taken",
            "num_test_examples": len(self.data.test.labels),
            "num_epochs": len(epochs),
            "times": self._times(disturbance),
            "memory": self.memory,
            "scores": epoch_scores(epochs, outcome) | (self.scores if completed else {}),
            "final_weights_sha256": self.final_weights_sha256 if completed else None,
            "data_sha256": self.data.sha256,
            "data_source": self.data.came_from,
            "resumed": bool(self.earlier.epochs),
            "disturbance": disturbance,
        }
        return RunRecord.model_validate(values | self.known)

    def _times(self, disturbance: Disturbance) -> dict[str, Any]:
        return epoch_times(self.epochs) | {
            "startup_seconds": self.startup_seconds,
            "run_seconds": self.seconds(),
            "max_run_seconds": self.study.max_run_seconds,
            "fault": timing_fault(disturbance),
        }
