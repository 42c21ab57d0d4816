"""Turn runs into statistics: every variant meets the baseline at its own seed."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.comparison import timing
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.finished_speeds import summarise_turns
from pipeline.comparison.pairing import check_comparable
from pipeline.comparison.schema import Comparison, Pair, VariantStatistics
from pipeline.records.schema import Outcome
from pipeline.records.writing import steady_epoch_seconds
from pipeline.statistics import intervals
from pipeline.statistics.equivalence import beyond_p_value, equivalence, outcome, tost_p_value
from pipeline.statistics.intervals import Ratio, holm
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import expected_dtypes


def compare(study: Study, runs: Mapping[RunKey, Run], speeds: Mapping[str, Speeds]) -> Comparison:
    """Return the statistics of every variant and every pair of the study.

    Seeds decide about accuracy; `speeds`, by benchmark, about speed.

    Raises:
        InputError: runs are missing, or differ in what the study does not vary.
    """
    check_comparable(study, {key: run.record for key, run in runs.items()})
    variants, pairs = [], []
    for benchmark in study.benchmarks:
        found = _BenchmarkRuns(study, benchmark, runs, speeds[benchmark])
        variants += [found.variant(name) for name in study.variants_of(benchmark)]
        pairs += found.pairs()
    turns = [summarise_turns(study, benchmark, speeds[benchmark]) for benchmark in study.benchmarks]
    return Comparison(study_sha256=study.digest, turns=turns, variants=variants, pairs=pairs)


class PValues(NamedTuple):
    """The p-values of a pair: that it differs by less than the margin, at all, by more; None where unknown."""

    within: float | None
    differs: float | None
    beyond: float | None


def adjust(pairs: Sequence[PValues], families: Sequence[Hashable]) -> list[PValues]:
    """Adjust each column of p-values, a row a pair, by Holm's method over the pairs of one family."""
    adjusted = list(pairs)
    for family in set(families):
        members = [index for index, other in enumerate(families) if other == family]
        columns = (holm(p_values) for p_values in zip(*(pairs[index] for index in members), strict=True))
        for index, row in zip(members, zip(*columns, strict=True), strict=True):
            adjusted[index] = PValues(*row)
    return adjusted


class _BenchmarkRuns:
    """The runs of one benchmark: what they measured, by variant and seed."""

    def __init__(self, study: Study, benchmark: str, runs: Mapping[RunKey, Run], speeds: Speeds) -> None:
        self.study = study
        self.speeds = speeds
        self.benchmark = benchmark
        self.settings = study.comparison
        self.conditions = {
            name: variant.model_dump(exclude={"benchmarks"}) for name, variant in study.variants_of(benchmark).items()
        }
        self.runs = {
            name: {seed: runs[RunKey(benchmark, name, seed)] for seed in study.seeds_of(benchmark, name)}
            for name in self.conditions
        }
        self.completed = {
            name: {seed: run for seed, run in by_seed.items() if run.record.outcome == "completed"}
            for name, by_seed in self.runs.items()
        }
        self.faults = {
            name: {
                seed: fault
                for seed, run in by_seed.items()
                if (fault := timing.exclusion_reason(run.record, self.settings.max_other_cpu_share))
            }
            for name, by_seed in self.runs.items()
        }
        self.measured_as = study.measured_as(benchmark)

    def variant(self, name: str) -> VariantStatistics:
        completed = self.completed[name].values()
        timed = [run for seed, run in self.completed[name].items() if seed not in self.faults[name]]
        num_warmup_epochs = self.settings.num_warmup_epochs
        steady = _known(steady_epoch_seconds(run.epochs, num_warmup_epochs) for run in timed)
        whole = _known(timing.whole_epoch_seconds(run.epochs, num_warmup_epochs) for run in timed)
        slopes = _known(timing.slope_percent(run.epochs, num_warmup_epochs) for run in timed)
        epochs = {seed: run.epochs for seed, run in self.runs[name].items()}
        target = self.settings.target_accuracy.get(self.benchmark)
        return VariantStatistics(
            benchmark=self.benchmark,
            variant=name,
            completed=intervals.proportion(len(completed), len(self.runs[name])),
            outcomes=dict(Counter(run.record.outcome for run in self.runs[name].values())),
            test_accuracy=intervals.mean([_accuracy(run) for run in completed]),
            test_loss=intervals.mean(_known(run.record.scores.test_loss for run in completed)),
            validation_accuracy=intervals.mean(_known(run.record.scores.validation_accuracy for run in completed)),
            epoch_seconds=intervals.ratio([math.log(s) for s in steady]),
            whole_epoch_seconds=intervals.ratio([math.log(s) for s in whole]),
            slope_percent=intervals.mean(slopes),
            time_to_accuracy=timing.time_to_accuracy(epochs, self.faults[name], target) if target else None,
            timing_faults=self.faults[name],
        )

    def pairs(self) -> list[Pair]:
        """Return every candidate against the study's baseline, then the further pairs that run on this benchmark."""
        wanted = [(self.settings.baseline, name) for name in self.conditions if name != self.settings.baseline]
        wanted += [(pair.baseline, pair.candidate) for pair in self.settings.further_pairs]
        possible = [pair for pair in wanted if all(name in self.conditions for name in pair)]
        families = [self._family(*pair) for pair in possible]
        adjusted = adjust([self._p_values(*pair) for pair in possible], families)
        return [
            self._pair(*pair, families.count(family), p_values)
            for pair, family, p_values in zip(possible, families, adjusted, strict=True)
        ]

    def _family(self, baseline: str, candidate: str) -> Hashable:
        """Group candidates that answer one question.

        What do precision and batch do; does training work with variables in 16 bits; what does anything else do?
        """
        variant = self.study.variants[candidate]
        keeps_float32 = expected_dtypes(variant.policy).variable == "float32"
        return baseline, variant.is_plain(self.study.engine), keeps_float32

    def _both(self, baseline: str, candidate: str) -> list[tuple[Run, Run]]:
        """Return the runs of the two at every seed that both completed."""
        theirs, ours = self.completed[baseline], self.completed[candidate]
        return [(theirs[seed], ours[seed]) for seed in theirs if seed in ours]

    def _differences_pp(self, baseline: str, candidate: str) -> np.ndarray:
        return np.array([100 * (_accuracy(b) - _accuracy(a)) for a, b in self._both(baseline, candidate)])

    def _p_values(self, baseline: str, candidate: str) -> PValues:
        differences_pp, margin_pp = self._differences_pp(baseline, candidate), self.settings.margin_pp[self.benchmark]
        return PValues(
            tost_p_value(differences_pp, margin_pp),
            intervals.difference_p_value(differences_pp),
            beyond_p_value(differences_pp, margin_pp),
        )

    def _failures(self, failed: str, other: str) -> dict[Outcome, int]:
        """Count how the runs of one variant ended at the seeds that only the other one completed."""
        seeds = self.completed[other].keys() - self.completed[failed].keys()
        return dict(Counter(run.record.outcome for seed, run in self.runs[failed].items() if seed in seeds))

    def _pair(self, baseline: str, candidate: str, num_candidates: int, adjusted: PValues) -> Pair:
        both = self._both(baseline, candidate)
        differences_pp, margin_pp = self._differences_pp(baseline, candidate), self.settings.margin_pp[self.benchmark]
        failures, baseline_failures = self._failures(candidate, baseline), self._failures(baseline, candidate)
        is_selection = bool(failures or baseline_failures)  # which is never equivalent
        found = outcome(None if is_selection else adjusted.within, adjusted.differs)
        memory = [
            (ours.record.memory.peak_bytes, theirs.record.memory.peak_bytes)
            for theirs, ours in both
            if ours.record.warm == theirs.record.warm  # a fork has not touched every page of the libraries
        ]
        effects = self._effects(baseline, candidate)
        return Pair(
            benchmark=self.benchmark,
            baseline=baseline,
            candidate=candidate,
            num_seeds=len(both),
            failures=failures,
            baseline_failures=baseline_failures,
            speedup=self._speedup(baseline, candidate),
            epoch_speedup=self._speedup(baseline, candidate, whole_epochs=True),
            speedup_at_most=self._speedup_at_most(baseline, candidate),
            baseline_kernels=self._kernels(baseline),
            candidate_kernels=self._kernels(candidate),
            precision_effect=effects and effects[0],
            batch_effect=effects and effects[1],
            interaction=effects and effects[2],
            accuracy_difference_pp=intervals.difference(differences_pp, adjusted.differs),
            equivalence=equivalence(differences_pp, margin_pp, num_candidates, adjusted.within, found, adjusted.beyond),
            memory_ratio=intervals.ratio([math.log(a / b) for a, b in memory if a and b]),
        )

    def _speedup(self, baseline: str, candidate: str, whole_epochs: bool = False) -> Ratio:
        return self.speeds.speedup(self.measured_as[baseline], self.measured_as[candidate], whole_epochs)

    def _speedup_at_most(self, baseline: str, candidate: str) -> float | None:
        """Bound the speedup by whole runs, where those of the candidate were ended as too slow.

        Both start alike, so that training alone differs by no less. Where only one is compiled, or warm, they do not.
        """
        if self.conditions[baseline]["jit_compile"] != self.conditions[candidate]["jit_compile"]:
            return None
        slow = {seed: run for seed, run in self.runs[candidate].items() if run.record.outcome == "too_slow"}
        seeds = [
            seed
            for seed in slow
            if seed in self.completed[baseline]
            and seed not in self.faults[candidate]
            and self.runs[baseline][seed].record.warm == slow[seed].record.warm
        ]
        bounds = [
            self.runs[baseline][seed].record.times.run_seconds / slow[seed].record.times.run_seconds for seed in seeds
        ]
        return max(bounds, default=None)

    def _kernels(self, name: str) -> list[str]:
        return sorted({run.record.environment.get("kernels") or "unknown" for run in self.runs[name].values()})

    def _effects(self, baseline: str, candidate: str) -> tuple[Ratio, Ratio, Ratio] | None:
        """Return the effects on speed of precision, of batch, and of both beyond each; None without corners."""
        if not (names := corners(self.conditions, baseline, candidate)):
            return None
        both_beyond_each = {baseline: -1.0, candidate: -1.0} | dict.fromkeys(names, 1.0)
        of_each = (self._speedup(baseline, name) for name in names)
        measured = {self.measured_as[name]: weight for name, weight in both_beyond_each.items()}
        return (*of_each, self.speeds.contrast(measured))  # type: ignore[return-value]


def corners(conditions: Mapping[str, Mapping[str, Any]], baseline: str, candidate: str) -> tuple[str, str] | None:
    """Name the variants that change only the policy and only the batch, where the candidate changes both.

    None where policy and batch do not both differ, where anything else does, or where no such variant is run.
    """
    first, last = conditions[baseline], conditions[candidate]
    policy = {name: last[name] for name in ("policy", "loss_scale")}  # the scale belongs to the policy
    batch = {"batch_multiplier": last["batch_multiplier"]}
    by_policy, by_batch = dict(first) | policy, dict(first) | batch
    if last in (by_policy, by_batch) or last != by_policy | batch:
        return None
    found = [next((n for n, other in conditions.items() if other == corner), None) for corner in (by_policy, by_batch)]
    return (found[0], found[1]) if found[0] and found[1] else None


def _accuracy(run: Run) -> float:
    accuracy = run.record.scores.test_accuracy
    if accuracy is None:
        raise ValueError("a completed run has a test accuracy")  # RunRecord sees to it
    return accuracy


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
