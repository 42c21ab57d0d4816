"""From the epochs of a run to its times, and whether those times can be trusted."""

import math
from collections.abc import Container, Mapping, Sequence
from statistics import median

import numpy as np

from pipeline.comparison.schema import TimeToAccuracy
from pipeline.records.schema import EpochRecord, RunRecord
from pipeline.statistics.intervals import proportion


def whole_epoch_seconds(epochs: Sequence[EpochRecord], num_warmup_epochs: int) -> float | None:
    """Return the median seconds of training and validation together, after the warm-up; None where no epoch is left."""
    seconds = [e.train_seconds + e.validation_seconds for e in epochs if e.since_start > num_warmup_epochs]
    return median(seconds) if seconds else None


def slope_percent(epochs: Sequence[EpochRecord], num_warmup_epochs: int) -> float | None:
    """Return by how many percent an epoch's time changes from one epoch to the next after the warm-up.

    The least-squares slope of log seconds over the epoch's number; None with fewer than two epochs. Times that still
    fall mean that the warm-up is too short, times that rise that the machine slows down.
    """
    steady = [epoch for epoch in epochs if epoch.since_start > num_warmup_epochs]
    if len(steady) < 2:
        return None
    numbers = np.array([epoch.epoch for epoch in steady], dtype=np.float64)
    logarithms = np.log([epoch.train_seconds for epoch in steady])
    deviations = numbers - numbers.mean()
    return float(100 * math.expm1(deviations @ logarithms / (deviations @ deviations)))


def seconds_to_accuracy(epochs: Sequence[EpochRecord], target_accuracy: float) -> float | None:
    """Return the training seconds, first epoch included, to the end of the first epoch that validates at the target.

    `target_accuracy` in [0, 1]; None where no epoch does. A resumed run pays for its second start.
    """
    seconds = 0.0
    for epoch in epochs:
        seconds += epoch.train_seconds
        if epoch.validation_accuracy >= target_accuracy:
            return seconds
    return None


def time_to_accuracy(
    epochs: Mapping[int, Sequence[EpochRecord]], not_timed: Container[int], target_accuracy: float
) -> TimeToAccuracy:
    """Return how many seeds reach `target_accuracy`, and their median time; those of `not_timed` have no time."""
    seconds = {seed: seconds_to_accuracy(of_run, target_accuracy) for seed, of_run in epochs.items()}
    counted = [value or math.inf for seed, value in seconds.items() if seed not in not_timed]
    middle = median(counted) if counted else math.inf
    return TimeToAccuracy(
        target_accuracy=target_accuracy,
        reached=proportion(sum(value is not None for value in seconds.values()), len(seconds)),
        median_seconds=middle if math.isfinite(middle) else None,
    )


def exclusion_reason(record: RunRecord, max_other_cpu_share: float) -> str | None:
    """Return why the times of a run are left out, or None: another process on its GPU, or on too much of its CPUs."""
    share = record.disturbance.other_cpu_share
    if not record.times.fault and share is not None and share > max_other_cpu_share:
        return f"other work took {share:.0%} of the CPU time"
    return record.times.fault or None
