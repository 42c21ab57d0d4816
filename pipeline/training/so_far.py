"""What is known of a run while it is made, and its folder, written from that once it ends. It needs no engine."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.machine.disturbance import Watch, timing_fault
from pipeline.records.schema import Disturbance, EpochRecord, Outcome, RunRecord, planned
from pipeline.records.writing import epoch_scores, epoch_times, write_run
from pipeline.study.schema import RunKey, Study

CHECKPOINTS = Path(".cache/checkpoints")


class Progress(NamedTuple):
    """The part of a run that an earlier process has trained."""

    epochs: list[EpochRecord]
    disturbance: Disturbance | None


NOTHING = Progress([], None)


@dataclass(frozen=True)
class SoFar:
    """What is known of a run while it is made.

    `facts` and `memory` are by the names of `RunRecord` and `Memory`, `process_started` is by `time.perf_counter()`,
    `labels` (num_test_examples,) are the true classes. `disturbance` is unknown before the first epoch has ended.
    """

    process_started: float
    facts: dict[str, Any]
    labels: np.ndarray
    earlier: Progress = NOTHING
    epochs: Sequence[EpochRecord] = ()
    memory: dict[str, Any] = field(default_factory=lambda: {"peak_bytes": None, "peak_kind": None})
    disturbance: Disturbance | None = None
    startup_seconds: float | None = None

    def seconds(self) -> float:
        """Return how long the run has taken, with the epochs that an earlier process trained."""
        earlier = sum(epoch.train_seconds + epoch.validation_seconds for epoch in self.earlier.epochs)
        return time.perf_counter() - self.process_started + earlier


class Notes:
    """Keep what is known so far, and tell of it whenever it is more."""

    def __init__(self, so_far: SoFar, tell: Callable[[SoFar], None]) -> None:
        self.so_far, self._tell = so_far, tell
        tell(so_far)

    def add(self, facts: dict[str, Any] | None = None, memory: dict[str, Any] | None = None, **values: Any) -> None:
        known, memory = self.so_far.facts | (facts or {}), self.so_far.memory | (memory or {})
        self.so_far = replace(self.so_far, facts=known, memory=memory, **values)
        self._tell(self.so_far)


class Tested(NamedTuple):
    """What only a completed run has: `scores` by the names of `Scores`, `predicted` (num_test_examples,) classes."""

    scores: dict[str, Any]
    predicted: np.ndarray
    final_weights_sha256: str


def unfinished(root: Path, key: RunKey) -> Path:
    """Return the folder that keeps a run's checkpoint and its logs for TensorBoard until the run is finished."""
    return root / CHECKPOINTS / f"{key.benchmark}-{key.variant}-{key.seed}"


def finish(
    study: Study,
    key: RunKey,
    so_far: SoFar,
    outcome: Outcome,
    watch: Watch,
    root: Path,
    finished_before: int | None,
    tested: Tested | None = None,
) -> RunRecord:
    """Write the folder of a run that has ended, and return its record.

    Args:
        watch: has watched the machine for as long as `so_far` has no disturbance.
        finished_before: what `finished_at` said when the run began.

    Raises:
        InputError: the run was finished by another process since then; that one stays.
    """
    epochs = so_far.epochs
    disturbance = so_far.disturbance or watch.finish().worst(so_far.earlier.disturbance)
    times = epoch_times(epochs) | {
        "startup_seconds": so_far.startup_seconds,
        "run_seconds": so_far.seconds(),
        "max_run_seconds": study.max_run_seconds,
        "fault": timing_fault(disturbance),
    }
    record = RunRecord.model_validate(
        {
            **key._asdict(),
            **so_far.facts,
            "outcome": outcome,
            "planned": planned(study, key),
            "overflow": "step skipped" if study.variants[key.variant].loss_scale.mode == "dynamic" else "step taken",
            "num_test_examples": len(so_far.labels),
            "num_epochs": len(epochs),
            "times": times,
            "memory": so_far.memory,
            "scores": epoch_scores(epochs, outcome) | (tested.scores if tested else {}),
            "final_weights_sha256": tested and tested.final_weights_sha256,
            "resumed": bool(so_far.earlier.epochs),
            "disturbance": disturbance,
        }
    )
    kept = unfinished(root, key)
    predicted = tested.predicted if tested else np.empty(0, np.int64)
    logs = kept / "tensorboard" if study.tensorboard and (kept / "tensorboard").exists() else None
    write_run(root, record, epochs, so_far.labels, predicted, logs, finished_before)
    shutil.rmtree(kept, ignore_errors=True)
    return record
