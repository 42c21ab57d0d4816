"""Say by which rule a claim is judged, and what would change its verdict."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.claims.kinds import Claim
from pipeline.claims.result_files import EvidenceKind, Verdict
from pipeline.comparison.fact_words import describe_facts
from pipeline.comparison.vocabulary import CONTRARY, OUTCOMES, QUANTITIES, SAMPLES, describe_trial
from pipeline.statistics.intervals import MIN_SEEDS


class _Rule(NamedTuple):
    """Hold what confirms a claim, refutes it, or speaks for its direction alone; as in "Reproduced if …"."""

    confirmed: str
    refuted: str
    direction: str = ""
    is_exact: bool = False  # one or the other: nothing is in between


def rule(claim: Claim, evidence: EvidenceKind | None = None) -> str:
    """Return the rule that decides about `claim` by this kind of evidence, in sentences."""
    if claim.kind in ("untested", "definition"):
        return "No rule: nothing measured here decides it."
    found = _found(claim, evidence)
    direction = f" In direction only if {found.direction}." if found.direction else ""
    between = "" if found.is_exact else " Else inconclusive."
    return f"Reproduced if {found.confirmed}.{direction} Not reproduced if {found.refuted}.{between}"


def would_change(claim: Claim, verdict: Verdict, evidence: EvidenceKind | None = None) -> str:
    """Return what would give another verdict than `verdict`, which is none of those that decide nothing."""
    if claim.kind == "definition":
        return "Nothing: it follows from definitions, and is not counted."
    found = _found(claim, evidence)
    if verdict == "reproduced":
        return f"Not reproduced if {found.refuted}."
    if verdict == "not reproduced":
        return f"Reproduced if {found.confirmed}."
    if verdict == "inconclusive" and evidence == "compiled" and claim.kind in _RULES:
        return f"Runs on such hardware: {PROFILE_COMMANDS[_PROFILES.get(claim.needs.hardware, 'paper')]}."
    if verdict == "inconclusive" and claim.kind in _MORE:
        return _MORE[claim.kind]
    return f"Reproduced if {found.confirmed}; not reproduced if {found.refuted}."


# By kind of hardware, the profile made for it; and what composes and runs a profile.
_PROFILES = {"nvidia_gpu": "paper", "tpu": "tpu"}
PROFILE_COMMANDS = {
    "quick": "make repro PROFILE=quick",
    "evening": "make repro PROFILE=evening",
    "paper": "make repro PROFILE=paper ENGINE=cuda",
    "tpu": "make repro PROFILE=tpu",
}
_MORE = {
    "speedup": "More launches, which narrow the interval: a larger speed.budget_seconds makes them.",
    "same_accuracy": "More seeds: make plan says how many would likely decide, or that no number would.",
    "value": "More seeds, unless runs themselves differ by more than the tolerance.",
    "memory": "More seeds.",
}


def _found(claim: Claim, evidence: EvidenceKind | None) -> _Rule:
    """Return the rule for this kind of evidence; where there is none, for the first kind that could decide."""
    rules = _COMPILED_RULES if evidence == "compiled" or claim.kind not in _RULES else _RULES
    return rules[claim.kind](claim)


def _ratio(what: str, at_least: float | None, at_most: float | None) -> _Rule:
    if at_least is not None:
        short = f"it lies wholly above 1, and below {at_least:g}×" if at_least > 1 else ""
        refuted = f"it lies wholly below {at_least:g}×" + (", and reaches 1 or less" if short else "")
        return _Rule(f"the whole interval of {what} lies at {at_least:g}× or above", refuted, short)
    limit = at_most or 1.0
    short = f"it lies wholly below 1, and above {limit:g}×" if limit < 1 else ""
    refuted = f"it lies wholly above {limit:g}×" + (", and reaches 1 or more" if short else "")
    return _Rule(f"the whole interval of {what} lies at {limit:g}× or below", refuted, short)


def _speedup(claim: Any) -> _Rule:
    found = _ratio("the speedup", claim.at_least, claim.at_most)
    beyond_chance = (
        ", and, if the interval of the baseline over itself leaves out 1, the speedup further from 1 than that"
    )
    beyond_chance = beyond_chance if claim.says_effect else ""
    return found._replace(confirmed=found.confirmed + beyond_chance)


def _same_accuracy(_claim: Any) -> _Rule:
    return _Rule(
        "two one-sided tests put the difference of accuracies within the study's margin (Holm)",
        "a t-test puts the difference beyond the margin (Holm), or the candidate diverges where its baseline does not "
        "(surely more often, if that one diverges too)",
    )


def _value(claim: Any) -> _Rule:
    near, quantity = f"{claim.value:g} ± {claim.tolerance:g}", QUANTITIES[claim.quantity]
    return _Rule(
        f"at least {MIN_SEEDS} runs put the {quantity} of one more run within {near}",
        f"at least {MIN_SEEDS} runs put it wholly outside",
    )


def _memory(claim: Any) -> _Rule:
    return _ratio("the ratio of peak memory", None, claim.at_most)


def _largest_batch(claim: Any) -> _Rule:
    return _Rule(
        f"the largest batch is at least {claim.at_least:g} times that of float32, each known to a thirty-second",
        "it is surely smaller than that, and not surely larger than that of float32",
        "it is surely larger than that of float32, and smaller than that",
    )  # fmt: skip


def _outcome(claim: Any) -> _Rule:
    contrary = " or ".join(OUTCOMES[outcome] for outcome in CONTRARY[claim.outcome])
    return _Rule(f"every run of {claim.candidate} {OUTCOMES[claim.outcome]}", f"every run {contrary}")


def _fact(claim: Any) -> _Rule:
    exactly = f"it comes out exactly so: {describe_facts(claim.quantities)}"
    return _Rule(exactly, "anything of it comes out otherwise", is_exact=True)


def _trial(claim: Any) -> _Rule:
    does, does_not = ("trains", "fails") if claim.trains else ("fails", "trains")
    return _Rule(
        f"{describe_trial(claim.trial)} {does} at more than half of the seeds, by the exact interval of the share",
        f"it {does_not} at more than half of them",
    )


def _sample(claim: Any) -> _Rule:
    subject, unit = SAMPLES[claim.sample.partition(".")[0]]
    limit, above, below = claim.at_least, "or above", "below"
    if limit is None:
        limit, above, below = claim.at_most, "or below", "above"
    unit = unit.removesuffix("s") if limit == 1 else unit
    return _Rule(
        f"the whole interval of {subject} lies at {limit:g}{unit} {above} (all tries of one value have no "
        "interval; at six of them the value counts)",
        f"it lies wholly {below} {limit:g}{unit}",
    )


_RULES: dict[str, Callable[[Any], _Rule]] = {
    "speedup": _speedup,
    "same_accuracy": _same_accuracy,
    "value": _value,
    "memory": _memory,
    "largest_batch": _largest_batch,
    "outcome": _outcome,
    "fact": _fact,
    "trial": _trial,
    "sample": _sample,
}


def _compiled_memory(claim: Any) -> _Rule:
    return _Rule(
        f"on every target a compiled step takes at most {claim.at_most:g} times the memory of strict float32",
        "on every target it takes no less than strict float32", "on every target it takes less, on some more than that",
    )  # fmt: skip


def _compiled_outcome(claim: Any) -> _Rule:
    """Return the rule for what fits. Where XLA did not compile the source's step, one that fits decides nothing."""
    step, none = f"the compiled step of {claim.candidate}", "fits into the memory of none of the targets"
    by_fitting = f"{step} fits into the memory of every target"
    if claim.needs.hardware != "tpu":
        outcomes = CONTRARY["out_of_memory"] if claim.outcome == "out_of_memory" else ("completed",)
        runs = f"every run of {claim.candidate} {' or '.join(OUTCOMES[outcome] for outcome in outcomes)}"
        by_fitting = f"on such hardware {runs} (that {step} fits decides nothing: TensorFlow keeps more alive)"
    by_overflow = f"{step} {none}"
    return _Rule(by_overflow, by_fitting) if claim.outcome == "out_of_memory" else _Rule(by_fitting, by_overflow)


def _compiled_rounding(_claim: Any) -> _Rule:
    return _Rule(
        "on every target the compiler keeps an operand of every float32 product in bfloat16, at default precision",
        "on every target it keeps none so", "on every target it keeps some so",
    )  # fmt: skip


_COMPILED_RULES: dict[str, Callable[[Any], _Rule]] = {
    "memory": _compiled_memory,
    "outcome": _compiled_outcome,
    "rounding": _compiled_rounding,
}
