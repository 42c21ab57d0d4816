"""Collect notes on a run while it is made, and write the run's files when it ends. This module needs no engine."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.machine.disturbance import timing_fault
from pipeline.records.run_record import Disturbance, EpochRecord, Outcome, RunRecord, planned, write_run
from pipeline.study.schema import RunKey, Study


class Progress(NamedTuple):
    """Hold the epochs that a run has trained, and how much other work the machine did meanwhile (`disturbance`)."""

    epochs: list[EpochRecord]
    disturbance: Disturbance | None


NOTHING = Progress([], None)
CHECKPOINT = "checkpoint"  # a folder next to the files of a run, deleted when the run ends


@dataclass(frozen=True)
class SoFar:
    """Hold all notes on a run while it is made.

    `facts` and `memory` use the field names of `RunRecord` and `Memory`. `process_started` is a time of
    `time.perf_counter()`, in seconds. `earlier` holds what earlier processes trained; `epochs` includes these epochs.
    `disturbance` is None until this process has trained an epoch, or has stopped training with an error.
    """

    process_started: float
    facts: dict[str, Any]
    earlier: Progress = NOTHING
    epochs: Sequence[EpochRecord] = ()
    memory: dict[str, Any] = field(default_factory=lambda: {"peak_bytes": None, "peak_kind": None})
    disturbance: Disturbance | None = None
    startup_seconds: float | None = None

    def seconds(self) -> float:
        """Return the seconds since `process_started`, plus the seconds of the epochs that earlier processes trained."""
        earlier = sum(epoch.train_seconds + epoch.validation_seconds for epoch in self.earlier.epochs)
        return time.perf_counter() - self.process_started + earlier


class Notes:
    """Collect notes on a run in `so_far`. Call `tell` with all notes at the start, and each time a note is added."""

    def __init__(self, so_far: SoFar, tell: Callable[[SoFar], None]) -> None:
        self.so_far, self._tell = so_far, tell
        tell(so_far)

    def add(self, facts: dict[str, Any] | None = None, **values: Any) -> None:
        self.so_far = replace(self.so_far, facts=self.so_far.facts | (facts or {}), **values)
        self._tell(self.so_far)


class Tested(NamedTuple):
    """Hold the results that only completed runs have.

    `scores` uses the field names of `Scores`. `predicted` holds the predicted classes, integer (num_test_examples,).
    """

    scores: dict[str, Any]
    predicted: np.ndarray
    final_weights_sha256: str


def finish(
    study: Study,
    key: RunKey,
    so_far: SoFar,
    outcome: Outcome,
    labels: np.ndarray,
    folder: Path,
    tested: Tested | None = None,
    num_stops: int = 0,
) -> RunRecord:
    """Write the files of a finished run into `folder`, and return its record.

    Args:
        labels: integer (num_test_examples,), the true classes of the test set.
        tested: the results on the test set, or None if the run did not complete.
        num_stops: how many times in a row the run was stopped at the study's time limit.
    """
    epochs = so_far.epochs
    disturbance = so_far.disturbance or so_far.earlier.disturbance or Disturbance()
    times = {
        "startup_seconds": so_far.startup_seconds,
        "run_seconds": so_far.seconds(),
        "max_run_seconds": study.max_run_seconds,
        "num_stops": num_stops,
        "fault": timing_fault(disturbance),
    }
    record = RunRecord.model_validate(
        {
            **key._asdict(),
            **so_far.facts,
            "outcome": outcome,
            "planned": planned(study, key),
            "num_test_examples": len(labels),
            "num_epochs": len(epochs),
            "times": times,
            "memory": so_far.memory,
            "scores": tested.scores if tested else {},
            "final_weights_sha256": tested and tested.final_weights_sha256,
            "resumed": bool(so_far.earlier.epochs),
            "disturbance": disturbance,
        }
    )
    write_run(folder, record, epochs, labels, tested.predicted if tested else np.empty(0, np.int64))
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    return record
