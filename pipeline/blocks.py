"""Run records to statistics: seeds are blocks, and every variant meets the baseline of its own block."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from pipeline import statistics, timing
from pipeline.bootstrap import CrossedBootstrap
from pipeline.comparison import Comparison, Pair, TimeToAccuracy, VariantStatistics
from pipeline.equivalence import Outcome as EquivalenceOutcome
from pipeline.equivalence import equivalence, outcome
from pipeline.pairing import check_comparable
from pipeline.records import EpochRecord, RunRecord
from pipeline.statistics import Ratio
from pipeline.study import RunKey, Study


class Run(NamedTuple):
    """A finished run: its record, its epochs, and which test examples it got right, bool (num_test_examples,)."""

    record: RunRecord
    epochs: Sequence[EpochRecord]
    correct: np.ndarray


def compare(study: Study, runs: Mapping[RunKey, Run]) -> Comparison:
    """Every variant and every pair of the study.

    Raises:
        InputError: runs are missing, or differ in what the study does not vary.
    """
    check_comparable(study, {key: run.record for key, run in runs.items()})
    variants, pairs = [], []
    for benchmark in study.benchmarks:
        blocks = _Blocks(study, benchmark, runs)
        variants += [blocks.variant(name) for name in study.variants_of(benchmark)]
        pairs += _adjust(list(blocks.pairs()), blocks.family)
    return Comparison(study_sha256=study.digest, variants=variants, pairs=pairs)


def _adjust(pairs: Sequence[Pair], family_of: Callable[[str, str], Hashable]) -> list[Pair]:
    """Holm's adjustment over each family of candidates, and the outcomes that follow. A repeat is in none."""
    adjusted = {id(pair): (pair.equivalence.p_value, pair.accuracy_difference_pp.p_value) for pair in pairs}
    families: dict[Hashable, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if not pair.repeats_baseline:
            families[family_of(pair.baseline, pair.candidate)].append(pair)
    for family in families.values():
        same = statistics.holm([pair.equivalence.p_value for pair in family])
        other = statistics.holm([pair.accuracy_difference_pp.p_value for pair in family])
        adjusted |= {id(pair): values for pair, values in zip(family, zip(same, other, strict=True), strict=True)}
    return [_with_outcome(pair, *adjusted[id(pair)]) for pair in pairs]


def _with_outcome(pair: Pair, equivalence_p_value: float | None, difference_p_value: float | None) -> Pair:
    test, difference = pair.equivalence, pair.accuracy_difference_pp
    found = _outcome(pair, equivalence_p_value, difference_p_value)
    changes = {
        "equivalence": test.model_copy(update={"p_value_holm": equivalence_p_value, "outcome": found}),
        "accuracy_difference_pp": difference.model_copy(update={"p_value_holm": difference_p_value}),
    }
    return pair.model_copy(update=changes)


def _outcome(pair: Pair, equivalence_p_value: float | None, difference_p_value: float | None) -> EquivalenceOutcome:
    """The outcome of a pair; seeds that only one of the two completed leave a selection, which is never equivalent."""
    if pair.failures or pair.baseline_failures:
        equivalence_p_value = None
    return outcome(equivalence_p_value, difference_p_value)


class _Blocks:
    """The runs of one benchmark: what they measured, by variant and seed."""

    def __init__(self, study: Study, benchmark: str, runs: Mapping[RunKey, Run]) -> None:
        self.study = study
        self.benchmark = benchmark
        self.settings = study.comparison
        self.conditions = {
            name: variant.model_dump(exclude={"benchmarks"}) for name, variant in study.variants_of(benchmark).items()
        }
        self.runs = {
            name: {seed: runs[RunKey(benchmark, name, seed)] for seed in study.seeds} for name in self.conditions
        }
        self.completed = {
            name: {seed: run for seed, run in by_seed.items() if run.record.outcome == "completed"}
            for name, by_seed in self.runs.items()
        }
        self.faults = {
            name: {
                seed: fault
                for seed, run in by_seed.items()
                if (fault := timing.timing_fault(run.record, self.settings.max_other_cpu_share))
            }
            for name, by_seed in self.runs.items()
        }
        self.log_seconds = {name: dict(self._log_seconds(name)) for name in self.conditions}
        num_examples = max(len(run.correct) for by_seed in self.runs.values() for run in by_seed.values())
        self.bootstrap = CrossedBootstrap(num_examples) if num_examples else None

    def _log_seconds(self, name: str) -> Iterator[tuple[int, float]]:
        """Seed and log of the steady epoch's seconds, of completed runs whose times count."""
        for seed, run in self.completed[name].items():
            seconds = timing.steady_epoch_seconds(run.epochs, self.settings.num_warmup_epochs)
            if seconds and seed not in self.faults[name]:
                yield seed, math.log(seconds)

    def variant(self, name: str) -> VariantStatistics:
        completed = self.completed[name].values()
        timed = [run for seed, run in self.completed[name].items() if seed not in self.faults[name]]
        whole = [timing.whole_epoch_seconds(run.epochs, self.settings.num_warmup_epochs) for run in timed]
        slopes = [timing.slope_percent(run.epochs, self.settings.num_warmup_epochs) for run in timed]
        return VariantStatistics(
            benchmark=self.benchmark,
            variant=name,
            completed=statistics.proportion(len(completed), len(self.runs[name])),
            outcomes=dict(Counter(run.record.outcome for run in self.runs[name].values())),
            test_accuracy=statistics.mean([_accuracy(run) for run in completed]),
            test_loss=statistics.mean(_known(run.record.final_test_loss for run in completed)),
            validation_accuracy=statistics.mean(_known(run.record.final_validation_accuracy for run in completed)),
            epoch_seconds=statistics.ratio(list(self.log_seconds[name].values())),
            whole_epoch_seconds=statistics.ratio([math.log(s) for s in _known(whole)]),
            slope_percent=statistics.mean(_known(slopes)),
            time_to_accuracy=self._time_to_accuracy(name),
            timing_faults=self.faults[name],
        )

    def _time_to_accuracy(self, name: str) -> TimeToAccuracy | None:
        target = self.settings.target_accuracy.get(self.benchmark)
        if target is None:
            return None
        seconds = {seed: timing.seconds_to_accuracy(run.epochs, target) for seed, run in self.runs[name].items()}
        never = [math.inf for value in seconds.values() if value is None]
        counted = [value for seed, value in seconds.items() if value is not None and seed not in self.faults[name]]
        middle = median(counted + never) if counted or never else math.inf
        return TimeToAccuracy(
            target_accuracy=target,
            reached=statistics.proportion(len(seconds) - len(never), len(seconds)),
            median_seconds=middle if math.isfinite(middle) else None,
        )

    def pairs(self) -> Iterator[Pair]:
        """Every candidate against the study's baseline, then the further pairs that run on this benchmark."""
        wanted = [(self.settings.baseline, name) for name in self.conditions if name != self.settings.baseline]
        wanted += [(pair.baseline, pair.candidate) for pair in self.settings.further_pairs]
        possible = [pair for pair in wanted if all(name in self.conditions for name in pair)]
        for baseline, candidate in possible:
            family = self.family(baseline, candidate)
            others = [self.family(b, c) == family and not self._repeats(b, c) for b, c in possible]
            yield self._pair(baseline, candidate, max(1, sum(others)))

    def family(self, baseline: str, candidate: str) -> Hashable:
        """Candidates that answer one question: what precision and batch do, or what else is done differently."""
        return baseline, self.study.variants[candidate].is_plain(self.study.engine)

    def _repeats(self, baseline: str, candidate: str) -> bool:
        return bool(self.conditions[baseline] == self.conditions[candidate])

    def _pair(self, baseline: str, candidate: str, num_candidates: int) -> Pair:
        theirs, ours = self.completed[baseline], self.completed[candidate]
        seeds = [seed for seed in theirs if seed in ours]
        differences_pp = [100 * (_accuracy(ours[seed]) - _accuracy(theirs[seed])) for seed in seeds]
        memory = [(ours[seed].record.peak_memory_bytes, theirs[seed].record.peak_memory_bytes) for seed in seeds]
        speedups = self._log_speedups(baseline, candidate)
        num_split_seeds, effects = self._effects(baseline, candidate)
        bootstrap_pp = None
        if self.bootstrap and len(seeds) >= statistics.MIN_BLOCKS:
            gains = [ours[seed].correct.astype(np.int8) - theirs[seed].correct for seed in seeds]
            bootstrap_pp = self.bootstrap.interval(np.stack(gains))
        return Pair(
            benchmark=self.benchmark,
            baseline=baseline,
            candidate=candidate,
            repeats_baseline=self._repeats(baseline, candidate),
            num_seeds=len(seeds),
            num_timed_seeds=len(speedups),
            num_split_seeds=num_split_seeds,
            failures=dict(Counter(self.runs[candidate][seed].record.outcome for seed in theirs if seed not in ours)),
            baseline_failures=dict(
                Counter(self.runs[baseline][seed].record.outcome for seed in ours if seed not in theirs)
            ),
            speedup=statistics.ratio(list(speedups.values())),
            precision_effect=effects and effects[0],
            batch_effect=effects and effects[1],
            interaction=effects and effects[2],
            accuracy_difference_pp=statistics.difference(differences_pp),
            bootstrap_pp=bootstrap_pp,
            equivalence=equivalence(differences_pp, self.settings.margin_pp[self.benchmark], num_candidates),
            memory_ratio=statistics.ratio([math.log(a / b) for a, b in memory if a and b]),
        )

    def _log_speedups(self, baseline: str, candidate: str) -> dict[int, float]:
        """log(seconds of the baseline / seconds of the candidate) by seed."""
        theirs, ours = self.log_seconds[baseline], self.log_seconds[candidate]
        return {seed: theirs[seed] - ours[seed] for seed in theirs if seed in ours}

    def _effects(self, baseline: str, candidate: str) -> tuple[int, tuple[Ratio, Ratio, Ratio] | None]:
        """Precision, batch and interaction, and over how many seeds.

        None where policy and batch do not both differ, where anything else does, or where a corner was not run.
        """
        first, last = self.conditions[baseline], self.conditions[candidate]
        policy = {name: last[name] for name in ("policy", "loss_scale")}  # the scale belongs to the policy
        batch = {"batch_multiplier": last["batch_multiplier"]}
        if last in (first | policy, first | batch) or last != first | policy | batch:
            return 0, None
        names = [
            next((name for name, other in self.conditions.items() if other == corner), None)
            for corner in (first | policy, first | batch)
        ]
        if None in names:
            return 0, None
        whole, by_precision, by_batch = (self._log_speedups(baseline, name) for name in (candidate, *names) if name)
        seeds = [seed for seed in whole if seed in by_precision and seed in by_batch]
        return len(seeds), (
            statistics.ratio([by_precision[seed] for seed in seeds]),
            statistics.ratio([by_batch[seed] for seed in seeds]),
            statistics.ratio([whole[seed] - by_precision[seed] - by_batch[seed] for seed in seeds]),
        )


def _accuracy(run: Run) -> float:
    accuracy = run.record.final_test_accuracy
    if accuracy is None:
        raise ValueError("a completed run has a test accuracy")  # RunRecord sees to it
    return accuracy


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
