"""Take the runs of a variant together: what they reached and how long they took, over its seeds."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pipeline.comparison import timing
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.schema import VariantStatistics
from pipeline.records.schema import Outcome
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
        reasons = {
            seed: timing.exclusion_reason(run.record, study.comparison.max_other_cpu_share)
            for seed, run in of_variant.items()
        }
        faults = {seed: reason for seed, reason in reasons.items() if reason}
        found[variant] = VariantRuns(benchmark, variant, of_variant, faults)
    return found


def variant_statistics(study: Study, of: VariantRuns, speeds: Speeds) -> VariantStatistics:
    """Return the statistics of a variant by itself."""
    scores = [run.record.scores for run in of.completed.values()]
    timed = [run.epochs for seed, run in of.completed.items() if seed not in of.faults]
    num_warmup_epochs = study.comparison.num_warmup_epochs
    steady = _known(steady_epoch_seconds(epochs, num_warmup_epochs) for epochs in timed)
    whole = _known(timing.whole_epoch_seconds(epochs, num_warmup_epochs) for epochs in timed)
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
        whole_epoch_seconds=intervals.ratio([math.log(seconds) for seconds in whole]),
        turn_epoch_seconds=speeds.epoch_seconds(of.variant),
        slope_percent=intervals.mean(_known(timing.slope_percent(epochs, num_warmup_epochs) for epochs in timed)),
        time_to_accuracy=timing.time_to_accuracy(epochs_by_seed, of.faults, target) if target else None,
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
