"""Judge what claims say of memory and dtypes by compiled programs. Pure functions, which need no engine.

Each returns a verdict, its reason, and what was found; None where nothing was compiled that could tell.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from pipeline.compiled.answers import (
    NUMBERS,
    OperationShare,
    memory_ratio,
    rounded_to_16_bits,
    step_fits,
)
from pipeline.compiled.schema import CompiledTarget

T = TypeVar("T")
CompiledVerdict = Literal["reproduced", "in direction only", "not reproduced", "inconclusive"]
OTHER_PROGRAM = "compiled by XLA; the source ran TensorFlow without it, which is another program"
KEEPS_MORE = f"{OTHER_PROGRAM} and keeps more alive"
SAME_COMPILER = "compiled by XLA, as every program for a TPU is"
LEANER = "as compiled here it fits, and the source's program may not have"


class CompiledJudgement(NamedTuple):
    """A verdict that rests on compiled programs, its reason, and what was found on each target."""

    verdict: CompiledVerdict
    reason: str
    found: str


def memory_at_most(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, batch_size: int, at_most: float
) -> CompiledJudgement | None:
    """Judge whether a step takes at most so many times the memory of strict float32, on every target."""

    def verdict(ratio: float) -> CompiledVerdict:
        if ratio <= at_most:
            return "reproduced"
        return "in direction only" if ratio < 1 else "not reproduced"

    ratios = _by_target(compiled, lambda made: memory_ratio(made, benchmark, numbers, batch_size))
    told = {title: f"{ratio:.2f}×" for title, ratio in ratios.items()}
    what = f"a step takes at most {at_most:g} times the memory of strict float32"
    return _judge(ratios, verdict, what, told, KEEPS_MORE)


def step_is_too_large(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, batch_size: int, *, too_large: bool
) -> CompiledJudgement | None:
    """Judge whether a step is too large for the memory of every target; or, where it is said to fit, the contrary.

    A step compiled by XLA that does not fit tells that one which keeps more alive would not either. One that fits tells
    only where XLA compiled the source's step too: for a TPU.
    """
    fits = _by_target(compiled, lambda made: step_fits(made, benchmark, numbers, batch_size))
    told = {title: "fits" if each else "does not fit" for title, each in fits.items()}
    what = f"{NUMBERS[numbers]} at batch {batch_size:,} {'does not fit' if too_large else 'fits'}"
    leaner = not all(made.kind == "tpu" for made in compiled)

    def verdict(each: bool) -> CompiledVerdict:
        if each and leaner:
            return "inconclusive"
        return "not reproduced" if each == too_large else "reproduced"

    return _judge(fits, verdict, what, told, KEEPS_MORE if leaner else SAME_COMPILER)


def rounds_float32_operands(
    compiled: Sequence[CompiledTarget], benchmark: str, batch_size: int
) -> CompiledJudgement | None:
    """Judge whether the compiler keeps an operand of every float32 product in bfloat16, at default precision."""

    def verdict(share: OperationShare) -> CompiledVerdict:
        if share.num_chosen == share.num_all:
            return "reproduced"
        return "in direction only" if share.num_chosen else "not reproduced"

    def share(made: CompiledTarget) -> OperationShare | None:
        program = made.find(benchmark, "float32_default", batch_size)
        found = rounded_to_16_bits(program) if program and program.memory else None
        return found if found and found.num_all else None

    shares = _by_target([made for made in compiled if made.kind == "tpu"], share)
    told = {title: f"{rounded} of {count} products" for title, (rounded, count) in shares.items()}
    return _judge(
        shares, verdict, "every float32 product has an operand that the compiler keeps in bfloat16", told, SAME_COMPILER
    )


def _by_target(compiled: Sequence[CompiledTarget], ask: Callable[[CompiledTarget], T | None]) -> dict[str, T]:
    return {made.title: answer for made in compiled if (answer := ask(made)) is not None}


def _judge(
    found: Mapping[str, T],
    verdict: Callable[[T], CompiledVerdict],
    what: str,
    told: Mapping[str, str],
    note: str,
) -> CompiledJudgement | None:
    """Return the verdict that all targets share; of more and less of the same direction, the less; else inconclusive.

    Args:
        what: the claim, as a sentence.
    """
    if not found:
        return None
    verdicts = [verdict(each) for each in found.values()]
    shared: CompiledVerdict = verdicts[0] if len(set(verdicts)) == 1 else "inconclusive"
    if set(verdicts) == {"reproduced", "in direction only"}:
        shared = "in direction only"
    holding, count = verdicts.count("reproduced"), len(verdicts)
    if "inconclusive" in verdicts and len(set(verdicts)) == 1:
        reason = f"not known whether {what}: {LEANER}"
    elif count > 1:
        reason = f"on {holding} of {count} targets {what}" + ("; they differ" if len(set(verdicts)) > 1 else "")
    else:
        reason = what if holding else f"it is not so that {what}"
    titles: dict[str, list[str]] = {}
    for title, words in told.items():
        titles.setdefault(words, []).append(title)
    return CompiledJudgement(
        shared,
        f"{reason} ({note})",
        "; ".join(f"{' · '.join(of_these)}: {words}" for words, of_these in titles.items()),
    )
