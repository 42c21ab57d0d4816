"""Choose the judge of each kind of claim. Judges are pure functions; here are those of claims that no run decides."""

from collections.abc import Callable

from pipeline.claims.evidence import Assessment, Evidence, NotTestableError
from pipeline.claims.ratio_judges import judge_memory, judge_speedup
from pipeline.claims.run_judges import judge_accuracy, judge_outcome, judge_value
from pipeline.claims.schema import CeilingClaim, Claims, FactClaim, TrialClaim, UntestedClaim
from pipeline.comparison.vocabulary import describe_facts, describe_trial
from pipeline.statistics.intervals import proportion


def _judge_ceiling(claim: CeilingClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    sizes = evidence.ceilings["largest_batch"].get(claim.benchmark, {})
    ours, theirs = sizes.get(claim.policy), sizes.get("float32")
    if not ours or not theirs:
        raise NotTestableError(f"the largest batch of {claim.policy} and of float32 is not known")
    measured = f"a batch of {ours:,} fits, in float32 one of {theirs:,}: {ours / theirs:.2f}×"
    if ours >= claim.at_least * theirs:
        return Assessment("reproduced", f"at least {claim.at_least:g} times the batch fits", measured)
    if ours > theirs:
        return Assessment("in direction only", f"a larger batch fits, and less than {claim.at_least:g} times", measured)
    return Assessment("not reproduced", "no larger batch fits", measured)


def _judge_fact(claim: FactClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    facts = evidence.numerics["facts"]
    unknown = [name for name in claim.quantities if name not in facts]
    if unknown:
        raise NotTestableError(
            f"this study did not look whether {describe_facts({n: claim.quantities[n] for n in unknown})}"
        )
    measured = describe_facts({name: facts[name] for name in claim.quantities})
    wrong = [name for name, value in claim.quantities.items() if facts[name] != value]
    if wrong:
        claimed = describe_facts({name: claim.quantities[name] for name in wrong})
        return Assessment("not reproduced", f"by the claim {claimed}", measured)
    return Assessment("reproduced", "checked exactly, without a tolerance", measured)


def _judge_trial(claim: TrialClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    trial = next((trial for trial in evidence.numerics["trials"] if trial["name"] == claim.trial), None)
    if trial is None:
        raise NotTestableError("the study has no dense benchmark to try it on")
    share = proportion(trial["num_trained"], trial["num_trials"])
    told = f"{describe_trial(claim.trial)} trains at {share.count} of {share.total} seeds"
    measured = f"{told}: a share in [{100 * share.low:.0f}, {100 * share.high:.0f}] %"
    low, high = (share.low, share.high) if claim.trains else (1 - share.high, 1 - share.low)
    does = "trains" if claim.trains else "fails"
    if low > 0.5:
        return Assessment("reproduced", f"it {does} at more seeds than not", measured)
    if high < 0.5:
        return Assessment("not reproduced", f"it {does} at fewer seeds than not", measured)
    return Assessment(
        "inconclusive", f"{share.total} seeds do not tell whether it trains at more seeds than not", measured
    )


def _judge_untested(claim: UntestedClaim, _claims: Claims, _evidence: Evidence) -> Assessment:
    raise NotTestableError(claim.reason)


JUDGES: dict[str, Callable[..., Assessment]] = {
    "speedup": judge_speedup,
    "same_accuracy": judge_accuracy,
    "value": judge_value,
    "memory": judge_memory,
    "largest_batch": _judge_ceiling,
    "outcome": judge_outcome,
    "fact": _judge_fact,
    "trial": _judge_trial,
    "untested": _judge_untested,
}
