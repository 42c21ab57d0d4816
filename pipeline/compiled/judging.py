"""Judge what claims say of memory, dtypes and widths by compiled programs. Pure functions, which need no engine.

Each returns a verdict, its reason, and what was found; None where nothing was compiled that could tell.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from pipeline.compiled.answers import (
    in_16_bits,
    largest_batch_ratio,
    memory_ratio,
    paddings,
    rounded_to_16_bits,
    step_fits,
)
from pipeline.compiled.schema import CompiledTarget

T = TypeVar("T")
OTHER_PROGRAM = "compiled by XLA; the source ran TensorFlow without it, which is another program and keeps more alive"


class CompiledJudgement(NamedTuple):
    """A verdict that rests on compiled programs, its reason, and what was found on each target."""

    verdict: Literal["reproduced", "in direction only", "not reproduced"]
    reason: str
    found: str


def memory_at_most(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, batch_size: int, at_most: float
) -> CompiledJudgement | None:
    """Judge whether a step takes at most so many times the memory of strict float32, on every target."""
    ratios = _by_target(compiled, lambda made: memory_ratio(made, benchmark, numbers, batch_size))
    return _judge(
        ratios,
        lambda ratio: ratio <= at_most,
        lambda ratio: ratio < 1,
        f"at most {at_most:g} times the memory",
        {title: f"{ratio:.2f}×" for title, ratio in ratios.items()},
    )


def largest_batch_at_least(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, at_least: float
) -> CompiledJudgement | None:
    """Judge whether at least so many times the largest batch of strict float32 fits, on every target searched.

    Each ratio is known within bounds. A claim holds by the lower one, and is refuted by the upper.
    """
    bounds = _by_target(compiled, lambda made: largest_batch_ratio(made, benchmark, numbers))
    return _judge(
        bounds,
        lambda ratio: ratio[0] >= at_least,
        lambda ratio: ratio[0] > 1,
        f"at least {at_least:g} times the batch fits",
        {title: f"{low:.2f} to {high:.2f}×" for title, (low, high) in bounds.items()},
    )


def runs_out_of_memory(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, batch_size: int
) -> CompiledJudgement | None:
    """Judge whether a step does not fit, on any of the targets."""
    fits = _by_target(compiled, lambda made: step_fits(made, benchmark, numbers, batch_size))
    told = {title: "fits" if each else "does not fit" for title, each in fits.items()}
    what = f"{numbers} at batch {batch_size:,} does not fit"
    return _judge(fits, lambda each: not each, lambda _: False, what, told)


def multiplies_in_16_bits(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, batch_size: int, at_least: float = 0.95
) -> CompiledJudgement | None:
    """Judge whether so large a share of the products and convolutions of a step has operands of 16 bits."""

    def share(made: CompiledTarget) -> tuple[int, int] | None:
        program = made.find(benchmark, numbers, batch_size)
        return in_16_bits(program) if program and program.memory else None

    shares = _by_target(compiled, share)
    return _judge(
        shares,
        lambda each: each[0] >= at_least * each[1],
        lambda each: each[0] > 0,
        f"at least {at_least:.0%} of the products and convolutions have operands of 16 bits",
        {title: f"{chosen} of {count}" for title, (chosen, count) in shares.items()},
    )


def rounds_float32_operands(
    compiled: Sequence[CompiledTarget], benchmark: str, batch_size: int
) -> CompiledJudgement | None:
    """Judge whether the compiler keeps an operand of every float32 product in bfloat16, at default precision."""

    def share(made: CompiledTarget) -> tuple[int, int] | None:
        program = made.find(benchmark, "float32_default", batch_size)
        return rounded_to_16_bits(program) if program and program.memory else None

    shares = _by_target([made for made in compiled if made.kind == "tpu"], share)
    return _judge(
        shares,
        lambda each: each[0] == each[1],
        lambda each: each[0] > 0,
        "every float32 product has an operand that the compiler keeps in bfloat16",
        {title: f"{rounded} of {count}" for title, (rounded, count) in shares.items()},
    )


def pads_other_widths(
    compiled: Sequence[CompiledTarget], numbers: str, multiple: int, widths: Sequence[int] = (4095, 4096, 4097, 4100)
) -> CompiledJudgement | None:
    """Judge whether products are padded exactly where their width is no multiple of this.

    4,095 units on a TPU take the place of 4,096: that is padding of what was asked for, and shows in place.
    """

    def padded(made: CompiledTarget) -> dict[int, bool] | None:
        found = paddings(made, numbers, widths)
        return {each.width: each.in_place + each.in_copies > 0 for each in found} if len(found) == len(widths) else None

    seen = _by_target(compiled, padded)
    return _judge(
        seen,
        lambda each: all(is_padded == (width % multiple != 0) for width, is_padded in each.items()),
        lambda each: any(is_padded for width, is_padded in each.items() if width % multiple),
        f"padded where the width is no multiple of {multiple}, and nowhere else",
        {
            title: ", ".join(f"{width:,}" for width, is_padded in each.items() if is_padded)
            for title, each in seen.items()
        },
    )


def _by_target(compiled: Sequence[CompiledTarget], ask: Callable[[CompiledTarget], T | None]) -> dict[str, T]:
    return {made.title: answer for made in compiled if (answer := ask(made)) is not None}


def _judge(
    found: Mapping[str, T],
    holds: Callable[[T], bool],
    leans: Callable[[T], bool],
    what: str,
    told: Mapping[str, str],
) -> CompiledJudgement | None:
    """Return the verdict that all targets share; where they differ, it holds in direction only."""
    if not found:
        return None
    listed = "; ".join(f"{title}: {words or 'none'}" for title, words in told.items())
    holding = [title for title, each in found.items() if holds(each)]
    if len(holding) == len(found):
        return CompiledJudgement("reproduced", f"{what}, on each of {len(found)} targets ({OTHER_PROGRAM})", listed)
    if holding or any(leans(each) for each in found.values()):
        return CompiledJudgement(
            "in direction only", f"{what}, on {len(holding)} of {len(found)} targets ({OTHER_PROGRAM})", listed
        )
    return CompiledJudgement("not reproduced", f"{what}: on none of {len(found)} targets ({OTHER_PROGRAM})", listed)
