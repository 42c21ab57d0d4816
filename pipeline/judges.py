"""One judge for each kind of claim: what it measured, the verdict and the reason. Pure functions."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from pipeline.claims import (
    AccuracyClaim,
    CeilingClaim,
    Claims,
    FactClaim,
    MemoryClaim,
    OutcomeClaim,
    SpeedupClaim,
    TrialClaim,
    UntestedClaim,
    ValueClaim,
)
from pipeline.comparison import Comparison, Pair, VariantStatistics
from pipeline.hardware import Hardware
from pipeline.statistics import MIN_BLOCKS, Interval, Mean, Ratio, proportion
from pipeline.study import Study
from pipeline.wording import (
    count_seeds,
    describe_difference,
    describe_plan,
    describe_ratio,
    failed_runs,
    margin_means_something,
)

Verdict = Literal["reproduced", "in direction only", "not reproduced", "inconclusive", "not testable here"]


class Evidence(NamedTuple):
    """What claims are judged by: `numerics` and `ceilings` are the contents of the files of those names."""

    study: Study
    comparison: Comparison
    numerics: Mapping[str, Any]
    ceilings: Mapping[str, Any]
    hardware: Hardware


class NotTestableError(Exception):
    """The evidence has nothing to say about a claim; the message is the reason."""


class Finding(NamedTuple):
    verdict: Verdict
    reason: str
    measured: str | None


def _check_variant(claims: Claims, study: Study, benchmark: str, name: str) -> None:
    """Raises `NotTestableError` where the study does not run `name` on `benchmark`, or means something else by it."""
    if benchmark not in study.benchmarks or name not in study.variants_of(benchmark):
        raise NotTestableError(f"the study does not run {name} on {benchmark}")
    # JAX compiles every step with XLA: there the choice is none.
    aside = {"benchmarks", "jit_compile"} if study.engine == "jax" else {"benchmarks"}
    if study.variants[name].model_dump(exclude=aside) != claims.variants[name].model_dump(exclude=aside):
        raise NotTestableError(f"the study's {name} is not the one of claims.yaml")


def _pair(claim: SpeedupClaim | AccuracyClaim | MemoryClaim, claims: Claims, evidence: Evidence) -> Pair:
    baseline = getattr(claim, "baseline", None) or evidence.study.comparison.baseline
    for name in (baseline, claim.candidate):
        _check_variant(claims, evidence.study, claim.benchmark, name)
    pair = evidence.comparison.find(claim.benchmark, claim.candidate, baseline)
    if pair is None:
        raise NotTestableError(f"the study does not compare {claim.candidate} with {baseline}")
    return pair


def _variant(claim: ValueClaim | OutcomeClaim, claims: Claims, evidence: Evidence) -> VariantStatistics:
    _check_variant(claims, evidence.study, claim.benchmark, claim.candidate)
    return evidence.comparison.variant(claim.benchmark, claim.candidate)


def _judge_speedup(claim: SpeedupClaim, claims: Claims, evidence: Evidence) -> Finding:
    pair = _pair(claim, claims, evidence)
    verdict, reason = _judge_ratio(pair.speedup, claim.at_least, claim.at_most, pair.num_timed_seeds)
    order = order_effect(evidence.comparison, claim.benchmark)
    if order and verdict != "inconclusive" and _is_no_larger(pair.speedup, order.speedup):
        verdict, reason = "inconclusive", f"no more than the order of the runs does: {describe_ratio(order.speedup)}"
    return Finding(verdict, reason + failed_runs(pair), describe_ratio(pair.speedup))


def order_effect(comparison: Comparison, benchmark: str) -> Pair | None:
    """The pair that shows that the order of the runs changes their times, or None where that is not seen."""
    for pair in comparison.pairs:
        low, high = pair.speedup.low, pair.speedup.high
        if pair.benchmark == benchmark and pair.repeats_baseline and low is not None and high is not None:
            return None if low <= 1 <= high else pair
    return None


def _is_no_larger(ratio: Ratio, other: Ratio) -> bool:
    return abs(math.log(ratio.ratio or 1.0)) <= abs(math.log(other.ratio or 1.0))


def _judge_memory(claim: MemoryClaim, claims: Claims, evidence: Evidence) -> Finding:
    pair = _pair(claim, claims, evidence)
    verdict, reason = _judge_ratio(pair.memory_ratio, None, claim.at_most, pair.num_seeds)
    return Finding(verdict, reason + failed_runs(pair), describe_ratio(pair.memory_ratio))


def _judge_ratio(ratio: Ratio, at_least: float | None, at_most: float | None, num_seeds: int) -> tuple[Verdict, str]:
    """The interval of a ratio against one threshold; a ratio on the right side of 1 alone has the direction."""
    if ratio.low is None or ratio.high is None:
        return (
            "inconclusive",
            f"no interval: {count_seeds(num_seeds)} with times that count in both, {MIN_BLOCKS} are needed",
        )
    # "At most" is "at least" seen in a mirror.
    threshold = at_least if at_least is not None else at_most
    low, high, limit, word = ratio.low, ratio.high, threshold or 1.0, "or above"
    if at_least is None:
        low, high, limit, word = 1 / ratio.high, 1 / ratio.low, 1 / limit, "or below"
    if low >= limit:
        return "reproduced", f"the whole interval lies at {threshold:g}× {word}"
    if high < limit and limit > 1 and low > 1:
        return "in direction only", f"the interval lies on the right side of 1, and short of {threshold:g}×"
    if high < limit:
        return "not reproduced", f"the whole interval lies on the other side of {threshold:g}×"
    return "inconclusive", f"the interval holds {threshold:g}×"


def _judge_accuracy(claim: AccuracyClaim, claims: Claims, evidence: Evidence) -> Finding:
    pair = _pair(claim, claims, evidence)
    accuracy = evidence.comparison.variant(pair.benchmark, pair.baseline).test_accuracy.mean
    verdict, reason = _judge_equivalence(pair, accuracy)
    return Finding(verdict, reason, describe_difference(pair))


def _judge_equivalence(pair: Pair, baseline_accuracy: float | None) -> tuple[Verdict, str]:
    """`baseline_accuracy` in [0, 1] is the mean over the baseline's completed runs."""
    test = pair.equivalence
    margin = f"±{test.margin_pp:g} pp"
    diverged = pair.failures.get("diverged", 0)
    if diverged:
        return "not reproduced", f"diverged at {count_seeds(diverged)} at which {pair.baseline} did not"
    if pair.failures or pair.baseline_failures:
        return "inconclusive", "only some runs completed" + failed_runs(pair)
    if test.outcome == "different":
        return "not reproduced", f"not equivalent within {margin}, and the difference is not chance (Holm)"
    if test.outcome in ("equivalent", "equivalent but shifted"):
        if baseline_accuracy is not None and not margin_means_something(test.margin_pp, baseline_accuracy):
            return "inconclusive", (
                f"{pair.baseline} itself reaches {baseline_accuracy:.1%}: to be within {margin} of that shows little"
            )
        p_value = test.p_value_holm or 0.0
        shown = f"p = {p_value:.2g}" if p_value >= 0.001 else "p < 0.001"
        return "reproduced", f"{test.outcome} within {margin} (TOST {shown} after Holm)"
    if test.spread_pp is None:
        return "inconclusive", f"no interval from {count_seeds(pair.num_seeds)} that both completed"
    return "inconclusive", f"neither equivalent within {margin} nor shown to differ; {describe_plan(test)}"


def _judge_value(claim: ValueClaim, claims: Claims, evidence: Evidence) -> Finding:
    """A value that one run gave against where one more run would fall here."""
    statistic: Mean | Ratio = getattr(_variant(claim, claims, evidence), claim.quantity)
    unit = " s" if claim.quantity.endswith("_seconds") else ""
    centre = statistic.mean if isinstance(statistic, Mean) else statistic.ratio
    if centre is None:
        return Finding("inconclusive", "no run completed", None)
    if statistic.new_low is None or statistic.new_high is None:
        return Finding("inconclusive", "no interval for one more run", f"{centre:.4g}{unit}")
    interval = Interval(statistic.new_low, statistic.new_high)
    measured = f"{centre:.4g}{unit}, one more run in [{interval.low:.4g}, {interval.high:.4g}]{unit}"
    if interval.low <= claim.value <= interval.high:
        return Finding("reproduced", "the published value is one that another run here could give", measured)
    return Finding("not reproduced", "no run here would give the published value (95 %)", measured)


def _judge_ceiling(claim: CeilingClaim, _claims: Claims, evidence: Evidence) -> Finding:
    sizes = evidence.ceilings["largest_batch"].get(claim.benchmark, {})
    ours, theirs = sizes.get(claim.policy), sizes.get("float32")
    if not ours or not theirs:
        raise NotTestableError(f"the largest batch of {claim.policy} and of float32 is not known")
    measured = f"{ours:,} against {theirs:,}: {ours / theirs:.2f}×"
    if ours >= claim.at_least * theirs:
        return Finding("reproduced", f"at least {claim.at_least:g} times the batch fits", measured)
    if ours > theirs:
        return Finding("in direction only", f"a larger batch fits, and less than {claim.at_least:g} times", measured)
    return Finding("not reproduced", "no larger batch fits", measured)


def _judge_outcome(claim: OutcomeClaim, claims: Claims, evidence: Evidence) -> Finding:
    outcomes = _variant(claim, claims, evidence).outcomes
    total, count = sum(outcomes.values()), outcomes.get(claim.outcome, 0)
    measured = f"{count} of {total} runs {claim.outcome.replace('_', ' ')}"
    if count == total:
        return Finding("reproduced", "every run", measured)
    return Finding("not reproduced" if not count else "inconclusive", "not every run" if count else "no run", measured)


def _judge_fact(claim: FactClaim, _claims: Claims, evidence: Evidence) -> Finding:
    facts = evidence.numerics["facts"]
    unknown = [name for name in claim.quantities if name not in facts]
    if unknown:
        raise NotTestableError(f"{unknown[0]} was not looked at in this study")
    found = {name: facts[name] for name in claim.quantities}
    words = {True: "yes", False: "no"}
    measured = "; ".join(
        f"{name}: {words[value] if isinstance(value, bool) else value}" for name, value in found.items()
    )
    wrong = [name for name, value in claim.quantities.items() if found[name] != value]
    if wrong:
        return Finding("not reproduced", f"{wrong[0]} is {found[wrong[0]]}, not {claim.quantities[wrong[0]]}", measured)
    return Finding("reproduced", "exactly so", measured)


def _judge_trial(claim: TrialClaim, _claims: Claims, evidence: Evidence) -> Finding:
    trial = next((trial for trial in evidence.numerics["trials"] if trial["name"] == claim.trial), None)
    if trial is None:
        raise NotTestableError("the study has no dense benchmark to try it on")
    share = proportion(trial["num_trained"], trial["num_trials"])
    measured = f"trains at {share.count} of {share.total} seeds [{share.low:.0%}, {share.high:.0%}]"
    low, high = (share.low, share.high) if claim.trains else (1 - share.high, 1 - share.low)
    does = "trains" if claim.trains else "fails"
    if low > 0.5:
        return Finding("reproduced", f"it {does} at more seeds than not", measured)
    if high < 0.5:
        return Finding("not reproduced", f"it {does} at fewer seeds than not", measured)
    return Finding("inconclusive", f"{share.total} seeds do not tell", measured)


def _judge_untested(claim: UntestedClaim, _claims: Claims, _evidence: Evidence) -> Finding:
    raise NotTestableError(claim.reason)


JUDGES: dict[str, Callable[..., Finding]] = {
    "speedup": _judge_speedup,
    "same_accuracy": _judge_accuracy,
    "value": _judge_value,
    "memory": _judge_memory,
    "largest_batch": _judge_ceiling,
    "outcome": _judge_outcome,
    "fact": _judge_fact,
    "trial": _judge_trial,
    "untested": _judge_untested,
}
