"""Judge claims about single quantities of runs: accuracy, published values and outcomes."""

import math

from pipeline.claims.evidence import Assessment, Evidence, find_pair, find_variant
from pipeline.claims.kinds import AccuracyClaim, OutcomeClaim, ValueClaim
from pipeline.claims.result_files import Verdict
from pipeline.claims.schema import Claims
from pipeline.comparison.schema import Pair
from pipeline.comparison.vocabulary import CONTRARY, OUTCOMES, QUANTITIES
from pipeline.comparison.wording import (
    count_seeds,
    describe_difference,
    describe_plan,
    failed_runs,
    margin_means_something,
)
from pipeline.statistics.intervals import MIN_SEEDS, Interval, Mean, proportion

_MUCH = 10  # times the tolerance: an interval so wide excludes little


def judge_accuracy(claim: AccuracyClaim, claims: Claims, evidence: Evidence) -> Assessment:
    pair = find_pair(claim, claims, evidence)
    accuracy = evidence.comparison.variant(pair.benchmark, pair.baseline).test_accuracy.mean
    verdict, reason = _judge_equivalence(pair, accuracy)
    return Assessment(verdict, reason, f"test accuracy {describe_difference(pair)} beside {pair.baseline}")


def _judge_equivalence(pair: Pair, baseline_accuracy: float | None) -> tuple[Verdict, str]:
    """Judge by the equivalence test; `baseline_accuracy` in [0, 1] is the mean over the baseline's completed runs."""
    test = pair.equivalence
    margin = f"±{test.margin_pp:g} pp"
    diverged, baseline_diverged = (each.get("diverged", 0) for each in (pair.failures, pair.baseline_failures))
    if diverged and baseline_diverged and proportion(diverged, diverged + baseline_diverged).low <= 0.5:
        return "inconclusive", "each diverged where the other did not" + failed_runs(pair)
    if diverged:
        return "not reproduced", f"diverged at {count_seeds(diverged)} at which {pair.baseline} did not"
    if pair.failures or pair.baseline_failures:
        return "inconclusive", "only some runs completed" + failed_runs(pair)
    near_chance = baseline_accuracy is not None and not margin_means_something(test.margin_pp, baseline_accuracy)
    if near_chance and test.spread_pp is not None:
        shows = "to differ from" if test.outcome == "different" else f"to be within {margin} of"
        would = "would show" if test.outcome == "inconclusive" else "shows"
        return "inconclusive", f"{pair.baseline} itself reaches {baseline_accuracy:.1%}: {shows} that {would} little"
    after_holm = " after Holm" if test.num_candidates > 1 else ""
    if test.is_beyond:
        return (
            "not reproduced",
            f"the difference lies beyond {margin} ({_p_value(test.beyond_p_value_holm)}{after_holm})",
        )
    if test.is_decided:
        return "reproduced", f"{test.outcome} within {margin} (TOST {_p_value(test.p_value_holm)}{after_holm})"
    if test.spread_pp is None:
        return "inconclusive", f"no interval from {count_seeds(pair.num_seeds)} that both completed"
    if test.p_value is None:
        return "inconclusive", "they differ by the same at every seed, which gives no test"
    if test.outcome == "different":
        told = f"there is a difference, and whether it lies within {margin} or beyond is open"
        return "inconclusive", f"{told}; {describe_plan(test)}"
    return "inconclusive", f"neither equivalent within {margin} nor shown to differ; {describe_plan(test)}"


def _p_value(value: float | None) -> str:
    """Return a p-value that decided, as in "p = 0.026"."""
    return f"p = {value:.2g}" if value and value >= 0.001 else "p < 0.001"


def judge_value(claim: ValueClaim, claims: Claims, evidence: Evidence) -> Assessment:
    """Set the value of one published run, give or take a tolerance, beside where one more run would fall here.

    The wider the interval of noisy runs, the less it says: it lies neither inside of the tolerance nor outside.
    """
    statistics = find_variant(claim, claims, evidence)
    statistic: Mean = getattr(statistics, claim.quantity)
    quantity = QUANTITIES[claim.quantity]
    if statistic.mean is None:
        return Assessment("inconclusive", "no run completed", None)
    if statistic.new_low is None or statistic.new_high is None:
        lack = f"{count_seeds(statistics.completed.count)} completed, {MIN_SEEDS} are needed"
        return Assessment("inconclusive", lack, f"{quantity} {statistic.mean:.4g}")
    most = math.inf if claim.quantity == "test_loss" else 1.0  # few runs that vary much reach beyond what can be
    interval = Interval(max(statistic.new_low, 0.0), min(statistic.new_high, most))
    measured = f"{quantity} {statistic.mean:.4g}; one more run would fall in [{interval.low:.4g}, {interval.high:.4g}]"
    near = f"{claim.value:g} ± {claim.tolerance:g}"
    if statistics.completed.count < statistics.completed.total:
        told = f"{statistics.completed.count} of {statistics.completed.total} runs completed, which are a selection"
        return Assessment("inconclusive", told, measured)
    if interval.low >= claim.value - claim.tolerance and interval.high <= claim.value + claim.tolerance:
        return Assessment("reproduced", f"any further run here would give {near} (95 %)", measured)
    if interval.low > claim.value + claim.tolerance or interval.high < claim.value - claim.tolerance:
        return Assessment("not reproduced", f"no run here would give {near} (95 %)", measured)
    if interval.high - interval.low > _MUCH * claim.tolerance:
        return Assessment("inconclusive", f"runs differ too much: one more may give {near}, or much else", measured)
    return Assessment("inconclusive", f"one more run may give {near}, or not", measured)


def judge_outcome(claim: OutcomeClaim, claims: Claims, evidence: Evidence) -> Assessment:
    """Judge how runs ended. One that was ended for its time tells neither; one that diverged did find its memory."""
    outcomes = find_variant(claim, claims, evidence).outcomes
    total, count = sum(outcomes.values()), outcomes.get(claim.outcome, 0)
    others = [f"; {number} {OUTCOMES[ended]}" for ended, number in outcomes.items() if ended != claim.outcome]
    measured = f"{count} of {total} runs of {claim.candidate} {OUTCOMES[claim.outcome]}" + "".join(others)
    if count == total:
        return Assessment("reproduced", "every run did", measured)
    if all(ended in CONTRARY[claim.outcome] for ended in outcomes):
        return Assessment("not reproduced", "none did", measured)
    return Assessment("inconclusive", "some did, not all" if count else "how they ended does not tell", measured)
