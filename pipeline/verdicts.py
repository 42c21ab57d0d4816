"""The judge: statistics + claims → verdicts. A pure function."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipeline.claims import Claim, Claims
from pipeline.comparison import Comparison, Pair
from pipeline.equivalence import MAX_SEEDS, Equivalence
from pipeline.hardware import Hardware

# A margin wider than this share of the baseline's accuracy shows nothing by being kept: near chance all is equivalent.
MAX_MARGIN_SHARE = 0.1
Verdict = Literal["reproduced", "in direction only", "not reproduced", "inconclusive", "not testable here"]


class Judgement(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    source: str
    verdict: Verdict
    reason: str
    published: str
    measured: str | None


def judge(claims: Claims, comparison: Comparison, hardware: Hardware) -> list[Judgement]:
    """A verdict for each claim, in the order of the claims."""
    return [_judge(claim, comparison, hardware) for claim in claims.claims]


def _judge(claim: Claim, comparison: Comparison, hardware: Hardware) -> Judgement:
    pair = comparison.find(claim.benchmark, claim.candidate)
    lack = _lack(claim, hardware)
    measured = None
    if pair is None:
        lack = lack or f"the study does not run {claim.candidate} on {claim.benchmark}"
    elif claim.kind == "same_accuracy":
        measured = describe_difference(pair)
    else:
        measured = describe_speedup(pair)
    verdict: Verdict
    if lack or pair is None:
        verdict, reason = "not testable here", lack or ""
    elif claim.kind == "same_accuracy":
        accuracy = comparison.variant(pair.benchmark, pair.baseline).test_accuracy.mean
        verdict, reason = _judge_accuracy(pair, accuracy)
    else:
        verdict, reason = _judge_speed(claim, pair)
        reason += failed_runs(pair)
    return Judgement(
        id=claim.id,
        source=claim.source,
        verdict=verdict,
        reason=reason,
        published=claim.published,
        measured=measured,
    )


def _lack(claim: Claim, hardware: Hardware) -> str | None:
    """What the claim needs and this machine does not have."""
    if claim.needs == "anything":
        return None
    if claim.needs == "nvidia_gpu" and claim.min_compute_capability:
        if hardware.kind == "nvidia_gpu" and (hardware.compute_capability or 0) >= claim.min_compute_capability:
            return None
        return f"needs an NVIDIA GPU of compute capability ≥ {claim.min_compute_capability}"
    names = {"cpu": "a CPU", "nvidia_gpu": "an NVIDIA GPU", "tpu": "a TPU", "intel_gpu": "an Intel GPU"}
    return None if hardware.kind == claim.needs else f"needs {names[claim.needs]}"


def _judge_speed(claim: Claim, pair: Pair) -> tuple[Verdict, str]:
    low, high = pair.speedup.low, pair.speedup.high
    if low is None or high is None:
        return "inconclusive", f"no interval from {_count(pair.num_timed_seeds)} with times that count in both"
    if claim.kind == "slower":
        if high < 1:
            return "reproduced", "the whole interval of the speedup lies below 1"
        return ("not reproduced", "the whole interval lies above 1") if low > 1 else _open("1")
    threshold = claim.threshold or 1.0
    if low >= threshold:
        return "reproduced", f"the whole interval lies at {threshold:g}× or above"
    if low > 1 and high < threshold:
        return "in direction only", f"faster, and by less than {threshold:g}×"
    if high < threshold:
        return "not reproduced", f"the whole interval lies below {threshold:g}×, and it does not lie above 1"
    return _open(f"{threshold:g}")


def _open(value: str) -> tuple[Verdict, str]:
    return "inconclusive", f"the interval of the speedup holds {value}"


def _judge_accuracy(pair: Pair, baseline_accuracy: float | None) -> tuple[Verdict, str]:
    """`baseline_accuracy` in [0, 1] is the mean over the baseline's completed runs."""
    test = pair.equivalence
    margin = f"±{test.margin_pp:g} pp"
    diverged = pair.failures.get("diverged", 0)
    if diverged:
        return "not reproduced", f"diverged at {_count(diverged)} at which {pair.baseline} did not"
    if pair.failures or pair.baseline_failures:
        return "inconclusive", "only some runs completed" + failed_runs(pair)
    if test.outcome == "different":
        return "not reproduced", f"not equivalent within {margin}, and the difference is not chance (Holm)"
    if baseline_accuracy is not None and not margin_means_something(test.margin_pp, baseline_accuracy):
        return "inconclusive", (
            f"{pair.baseline} itself reaches {baseline_accuracy:.1%}: to be within {margin} of that shows little"
        )
    if test.outcome in ("equivalent", "equivalent but shifted"):
        return "reproduced", f"{test.outcome} within {margin} (TOST p = {test.p_value_holm:.2g} after Holm)"
    if test.spread_pp is None:
        return "inconclusive", f"no interval from {_count(pair.num_seeds)} that both completed"
    return "inconclusive", f"neither equivalent within {margin} nor shown to differ; {describe_plan(test)}"


def failed_runs(pair: Pair) -> str:
    """Which runs are missing from a comparison, as in "; mixed_float16 diverged at 1 seed"; empty where none is."""
    return "".join(
        f"; {name} {'diverged' if outcome == 'diverged' else 'ran out of memory'} at {_count(count)}"
        for name, failures in ((pair.candidate, pair.failures), (pair.baseline, pair.baseline_failures))
        for outcome, count in failures.items()
    )


def margin_means_something(margin_pp: float, baseline_accuracy: float) -> bool:
    """Whether the margin is small beside the baseline's accuracy, in [0, 1]."""
    return margin_pp / 100 <= MAX_MARGIN_SHARE * baseline_accuracy


def _count(num_seeds: int) -> str:
    return f"{num_seeds} seed{'s' * (num_seeds != 1)}"


def describe_plan(test: Equivalence) -> str:
    """What this spread asks for, as in "12 seeds of this spread would establish ±1 pp"."""
    if test.num_seeds_needed is None:
        return f"more than {MAX_SEEDS} seeds of this spread would be needed for ±{test.margin_pp:g} pp"
    return f"{_count(test.num_seeds_needed)} of this spread would establish ±{test.margin_pp:g} pp if nothing differs"


def describe_speedup(pair: Pair) -> str:
    """The speedup as in "1.23× [1.10, 1.38]"; words stand where there is no interval."""
    speedup = pair.speedup
    if speedup.ratio is None:
        return "unknown"
    interval = "no interval" if speedup.low is None else f"[{speedup.low:.2f}, {speedup.high:.2f}]"
    return f"{speedup.ratio:.2f}× {interval}"


def describe_difference(pair: Pair) -> str:
    """The difference as in "−0.12 pp [−0.40, +0.16]"; words stand where there is no interval."""
    difference = pair.accuracy_difference_pp
    if difference.mean is None:
        return "unknown"
    text = f"{difference.mean:+.2f} pp "
    text += "no interval" if difference.low95 is None else f"[{difference.low95:+.2f}, {difference.high95:+.2f}]"
    return text.replace("-", "−")
