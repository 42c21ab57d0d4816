"""Take the runs of a variant together: what they reached and how long they took, over its seeds.

Their times are shown, and decide nothing: speed is measured in turns.
"""

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from pipeline.comparison.finished_runs import Run
from pipeline.comparison.schema import TimeToAccuracy, VariantStatistics
from pipeline.numbers import percent
from pipeline.records.schema import EpochRecord, Outcome, RunRecord
from pipeline.records.writing import steady_epoch_seconds
from pipeline.statistics import intervals
from pipeline.statistics.intervals import Proportion
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import RunKey, Study


class VariantRuns(NamedTuple):
    """Hold the runs of a variant on a benchmark, by seed. `faults` says why the times of some are left out."""

    benchmark: str
    variant: str
    runs: Mapping[int, Run]
    faults: Mapping[int, str]

    @property
    def completed(self) -> dict[int, Run]:
        return self.ended("completed")

    def ended(self, outcome: Outcome) -> dict[int, Run]:
        return {seed: run for seed, run in self.runs.items() if run.record.outcome == outcome}

    def failures_beside(self, other: "VariantRuns") -> dict[Outcome, int]:
        """Count how the runs ended at the seeds that only `other` completed."""
        seeds = other.completed.keys() - self.completed.keys()
        return dict(Counter(run.record.outcome for seed, run in self.runs.items() if seed in seeds))

    @property
    def kernels(self) -> list[str]:
        return sorted({run.record.environment.get("kernels") or "unknown" for run in self.runs.values()})


def by_variant(study: Study, benchmark: str, runs: Mapping[RunKey, Run]) -> dict[str, VariantRuns]:
    """Return the runs of `benchmark`, variant by variant."""
    found = {}
    for variant in study.variants_of(benchmark):
        of_variant = {seed: runs[RunKey(benchmark, variant, seed)] for seed in study.seeds_of(benchmark, variant)}
        max_share = study.comparison.max_other_cpu_share
        reasons = {seed: exclusion_reason(run.record, max_share) for seed, run in of_variant.items()}
        faults = {seed: reason for seed, reason in reasons.items() if reason}
        found[variant] = VariantRuns(benchmark, variant, of_variant, faults)
    return found


def variant_statistics(study: Study, of: VariantRuns, speeds: Speeds) -> VariantStatistics:
    """Return the statistics of a variant by itself."""
    scores = [run.record.scores for run in of.completed.values()]
    timed = [run.epochs for seed, run in of.completed.items() if seed not in of.faults]
    num_warmup_epochs = study.comparison.num_warmup_epochs
    steady = _known(steady_epoch_seconds(epochs, num_warmup_epochs) for epochs in timed)
    target = study.comparison.target_accuracy.get(of.benchmark)
    epochs_by_seed = {seed: run.epochs for seed, run in of.runs.items()}
    return VariantStatistics(
        benchmark=of.benchmark,
        variant=of.variant,
        completed=intervals.proportion(len(scores), len(of.runs)),
        outcomes=dict(Counter(run.record.outcome for run in of.runs.values())),
        test_accuracy=intervals.mean(_known(of_run.test_accuracy for of_run in scores)),
        test_loss=intervals.mean(_known(of_run.test_loss for of_run in scores)),
        validation_accuracy=intervals.mean(_known(of_run.validation_accuracy for of_run in scores)),
        epoch_seconds=intervals.ratio([math.log(seconds) for seconds in steady]),
        turn_epoch_seconds=speeds.epoch_seconds(of.variant),
        time_to_accuracy=time_to_accuracy(epochs_by_seed, of.faults, target) if target else None,
        timing_faults=dict(of.faults),
        late_skips=_late_skips(of.completed.values()),
    )


def _late_skips(runs: Iterable[Run]) -> Proportion | None:
    """Count the steps after the first epochs that a dynamic loss scale skipped, of all there were."""
    num_skipped = num_steps = 0
    for run in runs:
        counts = _known(epoch.skipped_steps for epoch in run.epochs)
        if run.record.planned.loss_scale.mode == "dynamic" and len(counts) == len(run.epochs):
            num_skipped += int(counts[-1] - counts[0])
            num_steps += (len(counts) - 1) * run.record.planned.steps_per_epoch
    return intervals.proportion(num_skipped, num_steps) if num_steps else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


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
        reached=intervals.proportion(sum(value is not None for value in seconds.values()), len(seconds)),
        median_seconds=middle if math.isfinite(middle) else None,
    )


def exclusion_reason(record: RunRecord, max_other_cpu_share: float) -> str | None:
    """Return why the times of a run are left out, or None: another process on its GPU, or on too much of its CPUs."""
    share = record.disturbance.other_cpu_share
    if not record.times.fault and share is not None and share > max_other_cpu_share:
        return f"other work took {percent(share)} of the CPU time"
    return record.times.fault or None
