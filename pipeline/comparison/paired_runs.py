"""Turn runs into statistics: every variant by itself over its seeds, and beside the baseline at each of them.

The times of whole runs are shown, and decide nothing: speed is measured in turns.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from pipeline.comparison.comparable import check_comparable, pairs_of
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.schema import ELSEWHERE, Comparison, Pair, Turns, VariantStatistics
from pipeline.machine.hardware import device, hardware_of
from pipeline.numbers import percent
from pipeline.records.blocks import REPEAT
from pipeline.records.schema import Outcome, RunRecord
from pipeline.records.writing import steady_epoch_seconds
from pipeline.statistics import intervals
from pipeline.statistics.another_day import BETWEEN_SITTINGS, on_another_day
from pipeline.statistics.equivalence import Contrast, adjust, difference, equivalence, p_values, paired
from pipeline.statistics.intervals import Proportion
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import expected_dtypes


def compare(
    study: Study,
    runs: Mapping[RunKey, Run],
    speeds: Mapping[str, Speeds],
    speed_device: str,
) -> Comparison:
    """Return the statistics of every variant and every pair of the study.

    Seeds decide about accuracy, whatever they ran on. `speeds`, by benchmark, measured on `speed_device`, decide about
    speed.

    Raises:
        InputError: runs differ in what the study does not vary, or are not what it says.
    """
    check_comparable(study, {key: run.record for key, run in runs.items()})
    benchmarks = {name: by_variant(study, name, runs, speed_device) for name in study.benchmarks}
    environments = [run.record.environment for run in runs.values()]
    there = [each for each in environments if device(each) == speed_device] or environments
    spread = BETWEEN_SITTINGS[hardware_of(there).kind]
    return Comparison(
        study_sha256=study.digest,
        turns=[summarise_turns(study, name, speeds[name]) for name in benchmarks],
        variants=[
            variant_statistics(study, of, speeds[of.benchmark]) for each in benchmarks.values() for of in each.values()
        ],
        pairs=[pair for name, each in benchmarks.items() for pair in _pairs(study, name, each, speeds[name], spread)],
    )


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


def by_variant(study: Study, benchmark: str, runs: Mapping[RunKey, Run], speed_device: str) -> dict[str, VariantRuns]:
    """Return the runs of `benchmark`, variant by variant."""
    found = {}
    for variant in study.variants_of(benchmark):
        of_variant = {seed: runs[RunKey(benchmark, variant, seed)] for seed in study.seeds_of(benchmark, variant)}
        max_share = study.comparison.max_other_cpu_share
        reasons = {seed: exclusion_reason(run.record, max_share, speed_device) for seed, run in of_variant.items()}
        faults = {seed: reason for seed, reason in reasons.items() if reason}
        found[variant] = VariantRuns(benchmark, variant, of_variant, faults)
    return found


def exclusion_reason(record: RunRecord, max_other_cpu_share: float, speed_device: str) -> str | None:
    """Return why the times of a run are left out, or None: another device, or others on its GPU or too many CPUs."""
    if device(record.environment) != speed_device:
        return ELSEWHERE
    share = record.disturbance.other_cpu_share
    if not record.times.fault and share is not None and share > max_other_cpu_share:
        return f"other work took {percent(share)} of the CPU time"
    return record.times.fault or None


def variant_statistics(study: Study, of: VariantRuns, speeds: Speeds) -> VariantStatistics:
    """Return the statistics of a variant by itself."""
    scores = [run.record.scores for run in of.completed.values()]
    timed = [run.epochs for seed, run in of.completed.items() if seed not in of.faults]
    num_warmup_epochs = study.comparison.num_warmup_epochs
    steady = _known(steady_epoch_seconds(epochs, num_warmup_epochs) for epochs in timed)
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
        turn_peak_memory_bytes=speeds.peak_bytes(of.variant),
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


def summarise_turns(study: Study, benchmark: str, speeds: Speeds) -> Turns:
    """Say how the speed of `benchmark` was measured, and how far it varies."""
    spread, degrees_of_freedom = speeds.launch_spread() or (None, 0)
    return Turns(
        benchmark=benchmark,
        num_turns_by_launch=speeds.num_turns,
        side_by_side=speeds.side_by_side,
        num_blocks=len(speeds.blocks),
        num_beside_others=sum(block.shares_gpu for block in speeds.blocks),
        half_width=speeds.half_width(),
        target_half_width=study.speed.target_half_width,
        launch_spread=spread,
        degrees_of_freedom=degrees_of_freedom,
        baseline_again=speeds.speedup(speeds.baseline, REPEAT),
        other_cpu_share=speeds.other_cpu_share,
    )


def _pairs(
    study: Study,
    benchmark: str,
    variants: Mapping[str, VariantRuns],
    speeds: Speeds,
    spread: float,
) -> Iterator[Pair]:
    """Set every candidate beside the study's baseline, then the further pairs that run on this benchmark."""
    margin_pp, measured = study.comparison.margin_pp[benchmark], study.measured_as(benchmark)
    pairs = [(variants[baseline], variants[name]) for baseline, name in pairs_of(study, benchmark)]
    families = [_family(study, *pair) for pair in pairs]
    contrasts_pp = [_contrast_pp(*pair) for pair in pairs]
    adjusted = adjust([p_values(found, margin_pp) for found in contrasts_pp], families)
    for (theirs, ours), family, contrast_pp, of_pair in zip(pairs, families, contrasts_pp, adjusted, strict=True):
        baseline, candidate = theirs.variant, ours.variant
        failures, baseline_failures = ours.failures_beside(theirs), theirs.failures_beside(ours)
        is_selection = bool(failures or baseline_failures)
        between = 0.0 if measured[baseline] == measured[candidate] else spread
        yield Pair(
            benchmark=benchmark,
            baseline=baseline,
            candidate=candidate,
            num_seeds=len(_both(theirs, ours)),
            failures=failures,
            baseline_failures=baseline_failures,
            speedup=on_another_day(speeds.log_speedup(baseline, candidate), between),
            epoch_speedup=on_another_day(speeds.log_speedup(baseline, candidate, whole_epochs=True), between),
            sitting_speedup=speeds.speedup(baseline, candidate),
            between_sittings=between,
            speedup_at_most=_speedup_at_most(study, theirs, ours),
            baseline_kernels=theirs.kernels,
            candidate_kernels=ours.kernels,
            accuracy_difference_pp=difference(contrast_pp, of_pair.differs),
            equivalence=equivalence(contrast_pp, margin_pp, families.count(family), of_pair, is_selection),
            memory_ratio=speeds.memory_ratio(baseline, candidate),
        )


def _family(study: Study, theirs: VariantRuns, ours: VariantRuns) -> Hashable:
    """Group candidates that answer one question.

    What do precision and batch do; does training work with variables in 16 bits; what does anything else do? A control
    is no candidate, and stands alone.
    """
    if ours.variant in study.comparison.must_differ:
        return theirs.variant, ours.variant
    variant = study.variants[ours.variant]
    keeps_float32 = expected_dtypes(variant.policy).variable == "float32"
    return theirs.variant, variant.is_plain, keeps_float32


def _both(theirs: VariantRuns, ours: VariantRuns) -> list[tuple[Run, Run]]:
    """Return the runs of the two at every seed that both completed."""
    completed = ours.completed
    return [(run, completed[seed]) for seed, run in theirs.completed.items() if seed in completed]


def _contrast_pp(theirs: VariantRuns, ours: VariantRuns) -> Contrast:
    """Return by how much the candidate's test accuracy is above the baseline's."""
    accuracies = [[run.record.scores.test_accuracy for run in pair] for pair in _both(theirs, ours)]
    baseline, candidate = np.array(accuracies, dtype=np.float64).reshape(-1, 2).T
    return paired(100 * (candidate - baseline))


def _speedup_at_most(study: Study, theirs: VariantRuns, ours: VariantRuns) -> float | None:
    """Bound the speedup by whole runs, where those of the candidate were ended as too slow.

    Both start alike and train as many epochs, so that training alone differs by no less; else there is no bound.
    """
    baseline, candidate = study.variants[theirs.variant], study.variants[ours.variant]
    if (baseline.xla, baseline.epoch_multiplier) != (candidate.xla, candidate.epoch_multiplier):
        return None
    completed = theirs.completed
    bounds = [
        completed[seed].record.times.run_seconds / slow.record.times.run_seconds
        for seed, slow in ours.ended("too_slow").items()
        if seed in completed and completed[seed].record.warm == slow.record.warm and seed not in ours.faults
    ]
    return max(bounds, default=None)
