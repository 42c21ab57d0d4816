"""Claims about what training reaches: the accuracy of a variant beside another's, and a value of one published run."""

import math
from typing import ClassVar, Literal

from pipeline.claims.claim import Assessment, Judge, Judges, PairClaim, ThresholdClaim, VariantClaim, Verdict
from pipeline.claims.evidence import Evidence
from pipeline.claims.wording import count_seeds, describe_difference, describe_plan, failed_runs, plain
from pipeline.comparison.schema import Comparison, Pair
from pipeline.numbers import percent
from pipeline.statistics.equivalence import margin_means_something
from pipeline.statistics.intervals import MIN_SEEDS, Interval, Mean, proportion
from pipeline.study.configuration import PositiveFloat

_MUCH = 10  # times the tolerance: an interval so wide excludes little


class AccuracyClaim(PairClaim):
    """`candidate` and `baseline`, by default the study's, reach the same test accuracy."""

    kind: Literal["same_accuracy"]

    @property
    def asked(self) -> tuple[str, str]:
        return f"test accuracy of {self.beside_words}, seed by seed", "equivalent within the study's margin"

    @property
    def judges(self) -> Judges:
        more = "More seeds: make plan says how many would likely decide, or that no number would."
        return {"measured": Judge(self._measured, more)}

    def _measured(self, evidence: Evidence) -> Assessment:
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

    kind: Literal["value"]
    quantity: Literal["test_accuracy", "test_loss", "validation_accuracy"]
    value: float
    tolerance: PositiveFloat

    @property
    def asked(self) -> tuple[str, str]:
        what = f"the {plain(self.quantity)} of one more run of {self.candidate} in {self.benchmark}"
        return what, f"within {self.value:g} ± {self.tolerance:g} (95 %)"

    @property
    def judges(self) -> Judges:
        more = "More seeds, unless runs themselves differ by more than the tolerance."
        return {"measured": Judge(self._measured, more)}

    def _measured(self, evidence: Evidence) -> Assessment:
        """Set the published value, give or take a tolerance, beside where one more run would fall here.

        The wider the interval of noisy runs, the less it says: it lies neither inside of the tolerance nor outside.
        """
        statistics = self.statistics(evidence)
        statistic: Mean = getattr(statistics, self.quantity)
        if statistic.mean is None:
            return Assessment("inconclusive", "no run completed", None)
        measured, runs = f"{plain(self.quantity)} {statistic.mean:.4g}", statistics.completed
        if statistic.new_low is None or statistic.new_high is None:
            lack = f"{count_seeds(runs.count)} completed, {MIN_SEEDS} are needed"
            return Assessment("inconclusive", lack, measured)
        most = math.inf if self.quantity == "test_loss" else 1.0  # few runs that vary much reach beyond what can be
        more = Interval(max(statistic.new_low, 0.0), min(statistic.new_high, most))
        measured += f"; one more run would fall in [{more.low:.4g}, {more.high:.4g}]"
        if runs.count < runs.total:
            told = f"{runs.count} of {runs.total} runs completed, which are a selection"
            return Assessment("inconclusive", told, measured)
        low, high = self.value - self.tolerance, self.value + self.tolerance
        near = f"{self.value:g} ± {self.tolerance:g}"
        if low <= more.low and more.high <= high:
            return Assessment("reproduced", f"one more run would give {near} (95 %)", measured)
        if more.low > high or more.high < low:
            return Assessment("not reproduced", f"one more run would not give {near} (95 %)", measured)
        much = f"runs differ too much: one more may give {near}, or much else"
        is_wide = more.high - more.low > _MUCH * self.tolerance
        return Assessment("inconclusive", much if is_wide else f"one more run may give {near}, or not", measured)


class LateSkipsClaim(VariantClaim, ThresholdClaim):
    """Of the steps after the first epoch, the loss scale skips at most so many percent."""

    unit: ClassVar[str] = " %"
    kind: Literal["late_skips"]

    @property
    def asked(self) -> tuple[str, str]:
        what = f"the share of steps after the first epoch that runs of {self.candidate} in {self.benchmark} skip"
        return what, self.threshold.words

    @property
    def judges(self) -> Judges:
        return {"measured": Judge(self._measured, "More steps: more epochs, or more seeds.")}

    def _measured(self, evidence: Evidence) -> Assessment:
        skips = self.statistics(evidence).late_skips
        if skips is None:
            return Assessment("inconclusive", "no run has a second epoch and says how many steps it skipped", None)
        low, high = 100 * skips.low, 100 * skips.high
        measured = (
            f"{skips.count:,} of {skips.total:,} steps after the first epoch are skipped [{low:.2g}, {high:.2g}] %"
        )
        return self.threshold.judge(low, high, measured)
