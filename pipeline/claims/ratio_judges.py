"""Judge claims about ratios: speedup and memory."""

import math

from pipeline.claims.evidence import Assessment, Evidence, find_pair
from pipeline.claims.result_files import Verdict
from pipeline.claims.schema import Claims, MemoryClaim, SpeedupClaim
from pipeline.comparison.schema import Comparison, Pair
from pipeline.comparison.wording import count_seeds, describe_kernels, describe_ratio, describe_speedup, failed_runs
from pipeline.statistics.intervals import MIN_BLOCKS, Ratio


def judge_speedup(claim: SpeedupClaim, claims: Claims, evidence: Evidence) -> Assessment:
    pair = find_pair(claim, claims, evidence)
    if pair.speedup.low is None and pair.speedup_at_most is not None:
        return Assessment(*_judge_bound(pair.speedup_at_most, claim), describe_speedup(pair))
    verdict, reason = _judge_ratio(pair.speedup, claim.at_least, claim.at_most, pair.num_timed_seeds)
    order = order_effect(evidence.comparison, claim.benchmark)
    if order and verdict != "inconclusive" and _is_no_larger(pair.speedup, order.speedup):
        verdict, reason = "inconclusive", f"no more than the order of the runs does: {describe_ratio(order.speedup)}"
    return Assessment(verdict, reason + failed_runs(pair) + describe_kernels(pair), describe_speedup(pair))


def _judge_bound(speedup_at_most: float, claim: SpeedupClaim) -> tuple[Verdict, str]:
    """Judge a speedup that has only an upper limit, because runs of the candidate took too long."""
    why = f"runs of {claim.candidate} were ended as too slow"
    if claim.at_least is not None:
        return ("not reproduced" if speedup_at_most < claim.at_least else "inconclusive"), why
    return ("reproduced" if speedup_at_most <= (claim.at_most or 0.0) else "inconclusive"), why


def order_effect(comparison: Comparison, benchmark: str) -> Pair | None:
    """Return the pair that shows that the order of the runs changes their times; None where that is not seen."""
    for pair in comparison.pairs:
        low, high = pair.speedup.low, pair.speedup.high
        if pair.benchmark == benchmark and pair.repeats_baseline and low is not None and high is not None:
            return None if low <= 1 <= high else pair
    return None


def _is_no_larger(ratio: Ratio, other: Ratio) -> bool:
    return abs(math.log(ratio.ratio or 1.0)) <= abs(math.log(other.ratio or 1.0))


def judge_memory(claim: MemoryClaim, claims: Claims, evidence: Evidence) -> Assessment:
    pair = find_pair(claim, claims, evidence)
    verdict, reason = _judge_ratio(pair.memory_ratio, None, claim.at_most, pair.num_seeds)
    measured = describe_ratio(pair.memory_ratio, f"the peak memory of {pair.baseline}")
    return Assessment(verdict, reason + failed_runs(pair), measured)


def _judge_ratio(ratio: Ratio, at_least: float | None, at_most: float | None, num_seeds: int) -> tuple[Verdict, str]:
    """Compare the interval of a ratio with a threshold; a ratio on the right side of 1 alone has the direction."""
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
    return "inconclusive", f"the interval reaches from below {threshold:g}× to above it"
