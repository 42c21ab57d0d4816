"""Choose the judge of each kind of claim. Judges are pure functions; here are those of claims that no run decides."""

from collections.abc import Callable, Mapping
from statistics import fmean

from pipeline.claims.compiled_judges import (
    judge_compiled_memory,
    judge_compiled_outcome,
    judge_compiled_rounding,
)
from pipeline.claims.evidence import Assessment, Evidence, NotTestableError
from pipeline.claims.kinds import CeilingClaim, FactClaim, SampleClaim, TrialClaim
from pipeline.claims.ratio_judges import judge_agreeing, judge_interval, judge_memory, judge_speedup
from pipeline.claims.result_files import EvidenceKind
from pipeline.claims.run_judges import judge_accuracy, judge_outcome, judge_value
from pipeline.claims.schema import Claims
from pipeline.comparison.fact_words import describe_facts
from pipeline.comparison.vocabulary import describe_sample, describe_trial
from pipeline.comparison.wording import margin_means_something
from pipeline.numerics.ceiling import largest_possible
from pipeline.numerics.facts import SHORTFALL, TRIAL_SIZE, is_measured
from pipeline.statistics.intervals import mean, proportion

NUMERICS = "A study whose numerics stage looks at it."


def _judge_ceiling(claim: CeilingClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    sizes = evidence.ceilings["largest_batch"].get(claim.benchmark, {})
    ours, theirs = sizes.get(claim.policy), sizes.get("float32")
    if not ours or not theirs:
        raise NotTestableError(
            f"the largest batch of {claim.policy} and of float32 is not known",
            f"A study with {claim.policy} and float32 on an accelerator, which has a memory of its own to fill.",
        )
    measured = f"a batch of {ours:,} fits, in float32 one of {theirs:,}: {ours / theirs:.2f}×"
    least, most = ours / largest_possible(theirs), largest_possible(ours) / theirs
    measured += f" [{least:.2f}, {most:.2f}]"
    if least >= claim.at_least:
        return Assessment("reproduced", f"at least {claim.at_least:g} times the batch fits", measured)
    if most < claim.at_least and least > 1:
        return Assessment("in direction only", f"a larger batch fits, and less than {claim.at_least:g} times", measured)
    if most < claim.at_least:
        return Assessment("not reproduced", "no larger batch surely fits", measured)
    return Assessment("inconclusive", "the search knows batches to a thirty-second, which leaves it open", measured)


def _judge_measured_fact(claim: FactClaim, claims: Claims, evidence: Evidence) -> Assessment:
    """Judge facts that a training step decided."""
    if not all(map(is_measured, claim.quantities)):
        raise NotTestableError("formats decide it, and nothing has to run", NUMERICS)
    return _judge_fact(claim, claims, evidence)


def _judge_fact(claim: FactClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    facts = evidence.numerics["facts"]
    unknown = [name for name in claim.quantities if name not in facts]
    if unknown:
        raise NotTestableError(
            f"this study did not look whether {describe_facts({n: claim.quantities[n] for n in unknown})}", NUMERICS
        )
    measured = describe_facts({name: facts[name] for name in claim.quantities})
    wrong = [name for name, value in claim.quantities.items() if _plain(facts[name]) != _plain(value)]
    if wrong:
        claimed = describe_facts({name: claim.quantities[name] for name in wrong})
        return Assessment("not reproduced", f"by the claim {claimed}", measured)
    return Assessment("reproduced", "checked exactly, without a tolerance", measured)


def _plain(value: bool | float | str) -> bool | float | str:
    """Return the number that a text is. Facts of range are texts, such as "inf": JSON has no infinity."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _judge_trial(claim: TrialClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    trial = next((trial for trial in evidence.numerics["trials"] if trial["name"] == claim.trial), None)
    if trial is None:
        raise NotTestableError("the study has no dense benchmark to try it on", "A study with a dense benchmark.")
    share, float32_accuracy = proportion(trial["num_trained"], trial["num_trials"]), fmean(trial["float32_accuracies"])
    told = f"{describe_trial(claim.trial)} trains at {share.count} of {share.total} seeds"
    measured = f"{told}: a share in [{100 * share.low:.0f}, {100 * share.high:.0f}] %"
    if not margin_means_something(100 * SHORTFALL, float32_accuracy):
        little = (
            f"float32 itself reaches {float32_accuracy:.1%}: to be within {100 * SHORTFALL:g} pp of it shows little"
        )
        return Assessment("inconclusive", little, measured)
    low, high = (share.low, share.high) if claim.trains else (1 - share.high, 1 - share.low)
    does = "trains" if claim.trains else "fails"
    if low > 0.5:
        return Assessment("reproduced", f"it {does} at more than half of the seeds: {TRIAL_SIZE}", measured)
    if high < 0.5:
        return Assessment("not reproduced", f"it {does} at less than half of the seeds: {TRIAL_SIZE}", measured)
    return Assessment("inconclusive", f"{share.total} seeds do not tell whether it trains at more than half", measured)


def _judge_sample(claim: SampleClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    values = evidence.numerics["samples"].get(claim.sample)
    if not values:
        raise NotTestableError("this study did not try it", NUMERICS)
    average = mean(values)
    if len(values) > 1 and len(set(values)) == 1:  # an interval of the mean would have no width
        verdict, reason = judge_agreeing(values[0], len(values), claim)
    else:
        verdict, reason = judge_interval(average, claim, f"{len(values)} tries give no interval")
    return Assessment(verdict, reason, describe_sample(claim.sample, average, len(values)))


Judge = Callable[..., Assessment]
# By kind of evidence, in the order in which they are asked: the first that can decide a claim does.
JUDGES: Mapping[EvidenceKind, Mapping[str, Judge]] = {
    "measured": {
        "speedup": judge_speedup,
        "same_accuracy": judge_accuracy,
        "value": judge_value,
        "memory": judge_memory,
        "largest_batch": _judge_ceiling,
        "outcome": judge_outcome,
        "fact": _judge_measured_fact,
        "trial": _judge_trial,
        "sample": _judge_sample,
    },
    "compiled": {
        "memory": judge_compiled_memory,
        "outcome": judge_compiled_outcome,
        "rounding": judge_compiled_rounding,
    },
    "counted": {"fact": _judge_fact},
}
