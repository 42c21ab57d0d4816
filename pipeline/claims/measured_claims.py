"""Claims about what training takes and reaches: speed, memory, accuracy, one published value, and how runs end."""

import math
from typing import ClassVar, Literal

from pipeline.claims.claim import Assessment, PairClaim, Threshold, ThresholdClaim, VariantClaim, Verdict
from pipeline.claims.evidence import Evidence
from pipeline.claims.wording import (
    OUTCOMES,
    count_seeds,
    describe_difference,
    describe_kernels,
    describe_plan,
    describe_ratio,
    describe_speedup,
    failed_runs,
    plain,
)
from pipeline.comparison.schema import Comparison, Pair
from pipeline.numbers import percent
from pipeline.records.schema import Outcome
from pipeline.statistics.another_day import reach
from pipeline.statistics.equivalence import margin_means_something
from pipeline.statistics.intervals import MIN_SEEDS, Interval, Mean, Ratio, proportion
from pipeline.study.configuration import PositiveFloat

# What an outcome contradicts: a run that diverged found its memory, and one that was ended for its time tells nothing.
CONTRARY = {
    "completed": ("out_of_memory",),
    "diverged": ("completed",),
    "out_of_memory": ("completed", "diverged"),
    "too_slow": ("completed",),
}
_MUCH = 10  # times the tolerance: an interval so wide excludes little


class SpeedupClaim(PairClaim, ThresholdClaim):
    """The speedup of `candidate` over `baseline`, by default the study's, is at least or at most so much.

    Where `baseline` is `default`, it is float32 as the device computes it unless asked for more: TF32 on an NVIDIA GPU
    of compute capability 8.0 and up, bfloat16 products on a TPU, strict float32 elsewhere. Where `existential`, the
    source says that it can be so: one case where it is not refutes nothing.
    """

    more: ClassVar[str] = (
        "More launches, by a larger speed.budget_seconds. A difference smaller than days make needs several machines."
    )
    kind: Literal["speedup"]
    with_validation: bool = False  # the source timed whole epochs
    existential: bool = False

    @property
    def asked(self) -> tuple[str, str]:
        epochs = ", whole epochs with validation" if self.with_validation else ""
        return f"the speed of {self.beside_words}{epochs}", self.threshold.words

    def judge(self, evidence: Evidence) -> Assessment:
        found = self._by_speedup(evidence)
        if not self.existential or found.verdict not in ("in direction only", "not reproduced"):
            return found
        told = f"{found.reason}; that it can be so, one case where it is not does not refute"
        return Assessment("inconclusive", told, found.measured, would_change="One case in which it is so.")

    def _by_speedup(self, evidence: Evidence) -> Assessment:
        """Judge by the interval of the speedup.

        A difference, which chance could feign, is none if the baseline over itself differs from 1 by as much. A claim
        that there is no difference has nothing to fear from chance. What is left open, and is smaller than sittings
        differ, no longer sitting could settle.
        """
        pair, threshold = self.pair(evidence), self.threshold
        speedup = pair.epoch_speedup if self.with_validation else pair.speedup
        measured = describe_speedup(pair, self.with_validation)
        if speedup.low is None and (bound := pair.speedup_at_most) is not None:
            found = threshold.judge(0.0, bound, measured, has_direction=True)
            return found._replace(reason=f"runs of {self.candidate} were ended as too slow")
        lack = "no interval: one of the two did not train through two launches"
        found = threshold.judge(speedup.low, speedup.high, measured, lack, has_direction=True)
        chance = evidence.comparison.turns_of(self.benchmark).baseline_again
        says_effect = threshold.limit >= 1 if threshold.is_least else threshold.limit < 1
        holds = found.verdict in ("reproduced", "in direction only")
        if says_effect and holds and _is_off_one(chance) and _distance(speedup) <= _distance(chance):
            by_chance = f"no more than the baseline differs from itself: {describe_ratio(chance)}"
            found = Assessment("inconclusive", by_chance, measured)
        elif speedup.low is not None and found.verdict == "inconclusive" and _is_out_of_reach(threshold, pair):
            days, size = 100 * math.expm1(reach(pair.between_sittings)), 100 * abs(threshold.limit - 1)
            beyond = (
                f"one machine cannot decide this: allowing for other days, the interval is ±{days:.0f} % or wider, "
                f"and the claimed difference is {size:.0f} %"
            )
            found = found._replace(reason=beyond)
        return found._replace(reason=found.reason + failed_runs(pair) + describe_kernels(pair))


def _is_out_of_reach(threshold: Threshold, pair: Pair) -> bool:
    """Tell whether a claim is of a difference so small that days differ by as much. One of none at all has no size."""
    return 0 < abs(math.log(threshold.limit)) <= reach(pair.between_sittings)


def _is_off_one(ratio: Ratio) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high


def _distance(ratio: Ratio) -> float:
    return abs(math.log(ratio.ratio or 1.0))


class AccuracyClaim(PairClaim):
    """`candidate` and `baseline`, by default the study's, reach the same test accuracy."""

    more: ClassVar[str] = "More seeds."
    kind: Literal["same_accuracy"]

    @property
    def asked(self) -> tuple[str, str]:
        return f"test accuracy of {self.beside_words}, seed by seed", "equivalent within the study's margin"

    def judge(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        verdict, reason = judge_equivalence(evidence.comparison, pair)
        reached = evidence.comparison.variant(self.benchmark, pair.baseline).test_accuracy.mean
        of = "" if reached is None else f", which reaches {percent(reached, '.1f')}"
        return Assessment(verdict, reason, f"test accuracy {describe_difference(pair)} beside {pair.baseline}{of}")


def judge_equivalence(comparison: Comparison, pair: Pair) -> tuple[Verdict, str]:
    """Judge by the equivalence test, unless runs failed or are near to chance."""
    test, baseline_accuracy = pair.equivalence, comparison.variant(pair.benchmark, pair.baseline).test_accuracy.mean
    margin = f"±{test.margin_pp:g} pp"
    diverged, baseline_diverged = (each.get("diverged", 0) for each in (pair.failures, pair.baseline_failures))
    if diverged and baseline_diverged and proportion(diverged, diverged + baseline_diverged).low <= 0.5:
        return "inconclusive", "each diverged where the other did not" + failed_runs(pair)
    if diverged:
        return "not reproduced", f"diverged at {count_seeds(diverged)} at which {pair.baseline} did not"
    if pair.failures or pair.baseline_failures:
        return "inconclusive", "only some runs completed" + failed_runs(pair)
    is_known = test.spread_pp is not None
    if is_known and baseline_accuracy is not None and not margin_means_something(test.margin_pp, baseline_accuracy):
        shows = "to differ from" if test.outcome == "different" else f"to be within {margin} of"
        would = "would show" if test.outcome == "inconclusive" else "shows"
        reaches = f"{pair.baseline} itself reaches {percent(baseline_accuracy, '.1f')}"
        return "inconclusive", f"{reaches}: {shows} that {would} little"
    holm = " after Holm" if test.num_candidates > 1 else ""
    if test.is_beyond:
        return "not reproduced", f"the difference lies beyond {margin} ({_p_value(test.beyond_p_value_holm)}{holm})"
    if test.is_decided:
        return "reproduced", f"{test.outcome} within {margin} (TOST {_p_value(test.p_value_holm)}{holm})"
    if test.spread_pp is None:
        few = count_seeds(pair.num_seeds)
        return "inconclusive", f"no interval from {few} that both completed, {MIN_SEEDS} are needed"
    if test.p_value is None:
        return "inconclusive", "they differ by the same at every seed, which gives no test"
    if test.outcome == "different":
        told = f"there is a difference, and whether it lies within {margin} or beyond is open"
    else:
        told = f"neither equivalent within {margin} nor shown to differ"
    return "inconclusive", f"{told}; {describe_plan(test)}"


def _p_value(value: float | None) -> str:
    """Return a p-value that decided, as in "p = 0.026"."""
    return f"p = {value:.2g}" if value and value >= 0.001 else "p < 0.001"


class ValueClaim(VariantClaim):
    """One run gave `value`, an accuracy in [0, 1] or a loss; what is no further off than `tolerance` is the same."""

    more: ClassVar[str] = "More seeds, unless runs themselves differ by more than the tolerance."
    kind: Literal["value"]
    quantity: Literal["test_accuracy", "test_loss", "validation_accuracy"]
    value: float
    tolerance: PositiveFloat

    @property
    def asked(self) -> tuple[str, str]:
        what = f"the {plain(self.quantity)} of one more run of {self.candidate} in {self.benchmark}"
        return what, f"within {self._published} (95 %)"

    @property
    def _published(self) -> str:
        """Say what counts as the same, as in "94.43 ± 2 %"."""
        if self.quantity == "test_loss":
            return f"{self.value:g} ± {self.tolerance:g}"
        return f"{100 * self.value:.2f} ± {100 * self.tolerance:g} %"

    def judge(self, evidence: Evidence) -> Assessment:
        """Set the published value, give or take a tolerance, beside where one more run would fall here.

        The wider the interval of noisy runs, the less it says: it lies neither inside of the tolerance nor outside.
        """
        statistics = self.statistics(evidence)
        statistic: Mean = getattr(statistics, self.quantity)
        if statistic.mean is None:
            return Assessment("inconclusive", "no run completed", None)
        is_loss, runs = self.quantity == "test_loss", statistics.completed
        measured = f"{plain(self.quantity)} {f'{statistic.mean:.4g}' if is_loss else percent(statistic.mean, '.2f')}"
        if statistic.new_low is None or statistic.new_high is None:
            lack = f"{count_seeds(runs.count)} completed, {MIN_SEEDS} are needed"
            return Assessment("inconclusive", lack, measured)
        most = math.inf if is_loss else 1.0  # few runs that vary much reach beyond what can be
        more = Interval(max(statistic.new_low, 0.0), min(statistic.new_high, most))
        ends = f"[{more.low:.4g}, {more.high:.4g}]" if is_loss else f"[{100 * more.low:.1f}, {100 * more.high:.1f}] %"
        measured += f"; one more run would fall in {ends} (95 %)"
        if runs.count < runs.total:
            told = f"{runs.count} of {runs.total} runs completed, which are a selection"
            return Assessment("inconclusive", told, measured)
        low, high = self.value - self.tolerance, self.value + self.tolerance
        near = self._published
        if low <= more.low and more.high <= high:
            return Assessment("reproduced", f"one more run would give {near} (95 %)", measured)
        if more.low > high or more.high < low:
            return Assessment("not reproduced", f"one more run would not give {near} (95 %)", measured)
        much = f"runs differ too much: one more may give {near}, or much else"
        is_wide = more.high - more.low > _MUCH * self.tolerance
        return Assessment("inconclusive", much if is_wide else f"one more run may give {near}, or not", measured)


class LateSkipsClaim(VariantClaim, ThresholdClaim):
    """Of the steps after the first epoch, the loss scale skips at most so many percent."""

    more: ClassVar[str] = "More steps: more epochs, or more seeds."
    unit: ClassVar[str] = " %"
    kind: Literal["late_skips"]

    @property
    def asked(self) -> tuple[str, str]:
        what = f"the share of steps after the first epoch that runs of {self.candidate} in {self.benchmark} skip"
        return what, self.threshold.words

    def judge(self, evidence: Evidence) -> Assessment:
        skips = self.statistics(evidence).late_skips
        if skips is None:
            return Assessment("inconclusive", "no run has a second epoch and says how many steps it skipped", None)
        low, high = 100 * skips.low, 100 * skips.high
        measured = (
            f"{skips.count:,} of {skips.total:,} steps after the first epoch are skipped [{low:.2g}, {high:.2g}] %"
        )
        return self.threshold.judge(low, high, measured)


class MemoryClaim(PairClaim, ThresholdClaim):
    """The peak memory of `candidate` is at most so many times that of the study's baseline, at the batch of each."""

    more: ClassVar[str] = "More launches of the turns: a larger speed.budget_seconds."
    kind: Literal["memory"]
    baseline: None = None
    at_most: PositiveFloat

    @property
    def asked(self) -> tuple[str, str]:
        return f"the peak memory of {self.beside_words}", self.threshold.words

    def judge(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        ratio = pair.memory_ratio
        lack = "no interval: fewer than two launches of the turns that compiled nothing tell it"
        measured = describe_ratio(ratio, f"the peak memory of {pair.baseline}")
        found = self.threshold.judge(ratio.low, ratio.high, measured, lack, has_direction=True)
        return found._replace(reason=found.reason + failed_runs(pair))


class OutcomeClaim(VariantClaim):
    """Every run of `candidate` ends so."""

    more: ClassVar[str] = "Runs that all end alike."
    kind: Literal["outcome"]
    outcome: Outcome

    @property
    def asked(self) -> tuple[str, str]:
        return f"how runs of {self.candidate} in {self.benchmark} end", f"each of them {OUTCOMES[self.outcome]}"

    def judge(self, evidence: Evidence) -> Assessment:
        """Judge how runs ended. One that was ended for its time tells neither; one that diverged found its memory."""
        outcomes = self.statistics(evidence).outcomes
        total, count = sum(outcomes.values()), outcomes.get(self.outcome, 0)
        others = [f"; {number} {OUTCOMES[ended]}" for ended, number in outcomes.items() if ended != self.outcome]
        measured = f"{count} of {total} runs of {self.candidate} {OUTCOMES[self.outcome]}" + "".join(others)
        if count == total:
            return Assessment("reproduced", "all ended so", measured)
        if all(ended in CONTRARY[self.outcome] for ended in outcomes):
            return Assessment("not reproduced", "none ended so", measured)
        return Assessment("inconclusive", "some did, not all" if count else "how they ended does not tell", measured)
