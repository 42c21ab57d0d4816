"""What a run leaves behind: `record.json`, `epochs.csv` and `predictions.npz`.

A run is finished when its folder exists: the files are written beside it and the folder is renamed into place.
"""

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from pipeline.study import RunKey

Outcome = Literal["completed", "diverged", "out_of_memory"]


class EpochRecord(BaseModel):
    """One epoch. Accuracies in [0, 1]; unknown is None; `skipped_steps` counts from the start of the run.

    `since_start` counts from the start of the process: smaller than `epoch` after the run was resumed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int
    since_start: int
    train_seconds: float
    validation_seconds: float
    train_loss: float
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float
    loss_scale: float | None
    skipped_steps: int | None
    images_per_second: float


class Disturbance(BaseModel):
    """What else ran on the machine during training, and whether something held it back; None where it can't be seen.

    `other_cpu_share` is the share in [0, 1] of the machine's CPU time that was neither idle nor this process's: other
    processes, and other guests of the same host. `cpu_quota_seconds` is how long a container's CPU quota stopped its
    threads, `num_thermal_events` how often a core slowed down for heat. The GPU is looked at once an epoch:
    `num_gpu_processes` is the largest number of processes seen on it, this one among them, `gpu_throttle_reasons` all
    reasons seen, `min_gpu_clock_mhz` the lowest clock of its multiprocessors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    other_cpu_share: float | None
    cpu_quota_seconds: float | None
    num_thermal_events: int | None
    num_gpu_processes: int | None
    gpu_throttle_reasons: list[str] | None
    min_gpu_clock_mhz: int | None

    def worst(self, other: Self | None) -> Self:
        """Of a run that two processes trained one after the other: what there was in both, the worse of each."""
        known = {
            name: [value for value in (getattr(self, name), getattr(other, name, None)) if value is not None]
            for name in _WORST_OF
        }
        return type(self).model_validate(
            {name: of(known[name]) if known[name] else None for name, of in _WORST_OF.items()}
        )


_WORST_OF: dict[str, Callable[[list[Any]], Any]] = {
    "other_cpu_share": max,
    "cpu_quota_seconds": sum,
    "num_thermal_events": sum,
    "num_gpu_processes": max,
    "gpu_throttle_reasons": lambda lists: sorted({reason for reasons in lists for reason in reasons}),
    "min_gpu_clock_mhz": min,
}


class RunRecord(BaseModel):
    """One run. Accuracies in [0, 1]; unknown is None.

    `steady_epoch_seconds` is the median training time, validation apart, of all epochs but `excluded_epochs`: the
    first, and where the run was `resumed` the first after that, because they trace and compile.
    `overflow` says what becomes of a step whose gradients are not finite: only a dynamic loss scale skips it.
    `test_metrics` has what the recipe measures besides accuracy, by name; it is empty where the run has no end.
    `timing_fault` says why the times of this run can't be used, where they can't.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[5] = 5
    benchmark: str
    variant: str
    seed: int
    campaign: str
    outcome: Outcome
    engine: str
    policy: str
    compute_dtype: str
    variable_dtype: str
    output_dtype: str
    tf32: bool
    jit_compile: bool
    devices: int
    loop: Literal["fit", "custom"]
    loss_scale: Literal["dynamic", "fixed", "none"]
    initial_loss_scale: float | None
    overflow: Literal["step skipped", "step taken"]
    batch_size: int
    image_size: int
    num_parameters: int
    num_train_examples: int
    num_validation_examples: int
    num_test_examples: int
    num_epochs: int
    steps_per_epoch: int
    startup_seconds: float
    first_epoch_seconds: float | None
    steady_epoch_seconds: float | None
    images_per_second: float | None
    peak_memory_bytes: int | None
    peak_memory_kind: str | None
    weights_bytes: int
    skipped_steps: int | None
    final_loss_scale: float | None
    final_train_loss: float | None
    final_validation_accuracy: float | None
    final_test_loss: float | None
    final_test_accuracy: float | None
    test_metrics: dict[str, float]
    initial_weights_sha256: str
    final_weights_sha256: str | None
    data_sha256: str
    resumed: bool
    excluded_epochs: list[int]
    started_at: str
    timing_fault: str | None
    disturbance: Disturbance
    environment: dict[str, Any]

    @model_validator(mode="after")
    def _completed_runs_have_an_accuracy(self) -> Self:
        if self.outcome == "completed" and self.final_test_accuracy is None:
            raise ValueError("a completed run without final_test_accuracy")
        return self

    @property
    def key(self) -> RunKey:
        return RunKey(self.benchmark, self.variant, self.seed)


def write_run(
    root: Path,
    record: RunRecord,
    epochs: Sequence[EpochRecord],
    labels: np.ndarray,
    predicted: np.ndarray,
    logs: Path | None = None,
) -> Path:
    """Writes the run's folder under `root` in one step and returns it.

    Args:
        labels: integer (num_test_examples,), true classes in data set order.
        predicted: integer (num_test_examples,), the most probable class of each; empty for a run without an end.
        logs: a folder that becomes `tensorboard` of the run.
    """
    directory = root / record.key.directory
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / "record.json").write_text(json.dumps(record.model_dump(), indent=2) + "\n", encoding="utf-8")
    with (partial / "epochs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(EpochRecord.model_fields))
        writer.writeheader()
        writer.writerows(epoch.model_dump() for epoch in epochs)
    np.savez_compressed(partial / "predictions.npz", labels=labels, predicted=predicted)
    if logs:
        shutil.copytree(logs, partial / "tensorboard")
    shutil.rmtree(directory, ignore_errors=True)
    partial.replace(directory)
    return directory


def epoch_times(epochs: Sequence[EpochRecord]) -> tuple[float | None, float | None, list[int]]:
    """Of the record: `first_epoch_seconds`, `steady_epoch_seconds` and `excluded_epochs`."""
    steady = [epoch.train_seconds for epoch in epochs if epoch.since_start > 1]
    excluded = [epoch.epoch for epoch in epochs if epoch.since_start == 1]
    return epochs[0].train_seconds if epochs else None, median(steady) if steady else None, excluded
