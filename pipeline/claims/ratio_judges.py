"""Judge claims by an interval and a threshold: speedup, memory, experiments of the numerics stage."""

import math

from pipeline.claims.evidence import Assessment, Evidence, find_pair
from pipeline.claims.kinds import MemoryClaim, SampleClaim, SpeedupClaim
from pipeline.claims.result_files import Verdict
from pipeline.claims.schema import Claims
from pipeline.comparison.wording import count_seeds, describe_kernels, describe_ratio, describe_speedup, failed_runs
from pipeline.statistics.intervals import MIN_SEEDS, Mean, Ratio, proportion


def judge_speedup(claim: SpeedupClaim, claims: Claims, evidence: Evidence) -> Assessment:
    pair = find_pair(claim, claims, evidence)
    speedup = pair.epoch_speedup if claim.with_validation else pair.speedup
    measured = describe_speedup(pair, claim.with_validation)
    if speedup.low is None and pair.speedup_at_most is not None:
        return Assessment(*_judge_bound(pair.speedup_at_most, claim), measured)
    lack = "no interval: one of the two did not train through two launches"
    verdict, reason = _judge_ratio(speedup, claim.at_least, claim.at_most, lack)
    chance = evidence.comparison.turns_of(claim.benchmark).baseline_again
    says_so = claim.says_effect and verdict in ("reproduced", "in direction only")
    if says_so and _is_off_one(chance) and _is_no_larger(speedup, chance):
        verdict, reason = "inconclusive", f"no more than the baseline differs from itself: {describe_ratio(chance)}"
    return Assessment(verdict, reason + failed_runs(pair) + describe_kernels(pair), measured)


def _judge_bound(speedup_at_most: float, claim: SpeedupClaim) -> tuple[Verdict, str]:
    """Judge a speedup that has only an upper limit, because runs of the candidate took too long."""
    why = f"runs of {claim.candidate} were ended as too slow"
    if claim.at_least is not None:
        return ("not reproduced" if speedup_at_most < claim.at_least else "inconclusive"), why
    return ("reproduced" if speedup_at_most <= (claim.at_most or 0.0) else "inconclusive"), why


def _is_off_one(ratio: Ratio) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high


def _is_no_larger(ratio: Ratio, other: Ratio) -> bool:
    return abs(math.log(ratio.ratio or 1.0)) <= abs(math.log(other.ratio or 1.0))


def judge_memory(claim: MemoryClaim, claims: Claims, evidence: Evidence) -> Assessment:
    pair = find_pair(claim, claims, evidence)
    lack = f"no interval: {count_seeds(pair.num_seeds)} that both completed, {MIN_SEEDS} are needed"
    verdict, reason = _judge_ratio(pair.memory_ratio, None, claim.at_most, lack)
    measured = describe_ratio(pair.memory_ratio, f"the peak memory of {pair.baseline}")
    return Assessment(verdict, reason + failed_runs(pair), measured)


def _judge_ratio(ratio: Ratio, at_least: float | None, at_most: float | None, lack: str) -> tuple[Verdict, str]:
    """Compare the interval of a ratio with a threshold; a ratio on the right side of 1 alone has the direction."""
    if ratio.low is None or ratio.high is None:
        return "inconclusive", lack
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


def judge_interval(average: Mean, claim: SampleClaim, lack: str) -> tuple[Verdict, str]:
    """Compare the interval of a mean with a threshold: there is no direction that falls short of it."""
    if average.low is None or average.high is None:
        return "inconclusive", lack
    threshold, word = _threshold(claim)
    (holds, fails) = (average.low >= threshold, average.high < threshold)
    if claim.at_least is None:
        (holds, fails) = (average.high <= threshold, average.low > threshold)
    if holds:
        return "reproduced", f"the whole interval lies at {threshold:g} {word}"
    if fails:
        return "not reproduced", f"the whole interval lies on the other side of {threshold:g}"
    return "inconclusive", f"the interval reaches from below {threshold:g} to above it"


def judge_agreeing(value: float, num_tries: int, claim: SampleClaim) -> tuple[Verdict, str]:
    """Compare a value that came out of every try with a threshold: by the share of all tries that would give it."""
    threshold, word = _threshold(claim)
    holds = value >= threshold if claim.at_least is not None else value <= threshold
    share = proportion(num_tries, num_tries)
    side = f"at {threshold:g} {word}" if holds else f"on the other side of {threshold:g}"
    told = f"all {num_tries} tries gave one value, {side}; so would at least {100 * share.low:.0f} % of further tries"
    if share.low <= 0.5:
        return "inconclusive", f"{told}, which is not surely more than half"
    return ("reproduced" if holds else "not reproduced"), told


def _threshold(claim: SampleClaim) -> tuple[float, str]:
    if claim.at_least is not None:
        return claim.at_least, "or above"
    return claim.at_most or 0.0, "or below"
