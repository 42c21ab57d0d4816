"""Answer the questions that claims and readers ask of compiled programs. Pure functions, which need no engine."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pipeline.compiled.schema import COMPILED_FILES, CompiledProgram, CompiledTarget, read_target
from pipeline.compiled.targets import TARGETS, Target

NARROW = ("bfloat16", "float16")
# What readers see in place of the keys of a step's precision.
PRECISION_WORDS = {
    "float32": "strict float32",
    "float32_default": "float32 as the device multiplies it by default",
    "mixed_float16": "mixed_float16",
    "mixed_bfloat16": "mixed_bfloat16",
    "float8": "float8",
}
# Why an operation of a mixed step has float32 operands, by what its place in the model holds.
REASONS = (
    ("resizing", "images are resized in float32 whatever the policy"),
    ("rescaling", "images are scaled in float32 whatever the policy"),
    ("normalization", "batch norm computes its statistics in float32"),
    ("softmax", "probabilities and the loss are computed in float32"),
    ("probabilities", "probabilities and the loss are computed in float32"),
)
OTHERWISE = "the layer has a dtype of its own, or the compiler widens it"
SHOWN_PLACES = 3  # places for a reason


class OperationShare(NamedTuple):
    """Count some operations out of all there are."""

    num_chosen: int
    num_all: int


def read_compiled(folder: Path = COMPILED_FILES) -> list[CompiledTarget]:
    """Return what was compiled, in the order of the targets; nothing of those that have no file.

    Raises:
        InputError: a file is damaged, or says what can't be.
    """
    return [read_target(name, folder) for name in TARGETS if (folder / f"{name}.json").exists()]


def memory_ratio(
    made: CompiledTarget, benchmark: str, precision: str, batch_size: int, baseline_batch_size: int | None = None
) -> float | None:
    """Return the memory of a step at `precision` over that in strict float32; None if one has none.

    Both have the same batch, unless the baseline is given its own. It is the ratio of what is allocated. That is what a
    device has to give, and what its allocator measures of a run.
    """
    ours = made.find(benchmark, precision, batch_size)
    theirs = made.find(benchmark, "float32", baseline_batch_size or batch_size)
    if not ours or not theirs or not ours.memory or not theirs.memory:
        return None
    return ours.memory.total / theirs.memory.total


def step_fits(made: CompiledTarget, benchmark: str, precision: str, batch_size: int) -> bool | None:
    """Return whether a step fits into the memory; None where it was not compiled, or refused for another reason."""
    found = made.find(benchmark, precision, batch_size)
    return made.fits(found) if found else None


def multiplied_in(program: CompiledProgram, num_bits: Literal[8, 16]) -> OperationShare:
    """Count the operations all of whose operands have so many bits."""
    found = [
        each for each in program.operations if {_bits(dtype) for dtype in each.operands.split(" × ")} == {num_bits}
    ]
    return OperationShare(sum(each.count for each in found), sum(each.count for each in program.operations))


def _bits(dtype: str) -> int:
    return 8 if dtype.startswith("f8") else 16 if dtype in NARROW else 32


def rounded_to_16_bits(program: CompiledProgram) -> OperationShare:
    """Count the operations with an operand that the compiler keeps in 16 bits, whatever the policy says."""
    rounded = [each for each in program.operations if set(each.operands.split(" × ")) & set(NARROW)]
    return OperationShare(sum(each.count for each in rounded), sum(each.count for each in program.operations))


def place_words(place: str) -> str:
    """Return where in a model an operation stands, as in "dense_1, backward", from the name that JAX gave it."""
    *scopes, _ = [part for part in place.split("/") if not part.startswith("jit(")]
    names = [re.sub(r"^(?:transpose\()?jvp\((.*?)\)+$", r"\1", scope) for scope in scopes]
    layer = "/".join(names[1:] or names) or "outside of the layers"
    if place.startswith("transpose("):
        return f"{layer}, backward"
    return f"{layer}, forward" if place.startswith("jvp(") else layer


def why_wide(place: str) -> str:
    """Say why an operation at this place of a model under a mixed policy has float32 operands."""
    return next((reason for word, reason in REASONS if word in place.lower()), OTHERWISE)


def sentences(target: Target, programs: Iterable[CompiledProgram]) -> list[str]:
    """Say what the compiler says: a sentence for each precision, then what stays in float32 and why."""
    found = []
    wide: dict[str, dict[str, None]] = {}  # the places of each reason, each of them once
    num_left_out = 0
    for program in programs:
        what = f"{PRECISION_WORDS[program.precision]} at batch {program.batch_size:,}"
        if program.memory is None:
            words = program.refusal.words if program.refusal else ""
            too_large = program.refusal is not None and program.refusal.for_memory
            outcome = " does not fit. The compiler says" if too_large else f": {target.title} refuses it"
            found.append(f"{what}{outcome}: {words}")
            continue
        fits = "fits" if program.memory.total <= target.memory_bytes else "does not fit"
        num_bits: Literal[8, 16] = 8 if program.precision == "float8" else 16
        share = multiplied_in(program, num_bits)
        needed, there = program.memory.total / 2**20, target.memory_bytes / 2**20
        found.append(
            f"{what} {fits}: {needed:,.0f} of {there:,.0f} MiB; "
            f"{share.num_chosen} of {share.num_all} products and convolutions are in {num_bits} bits."
        )
        num_left_out = max(num_left_out, program.num_wide_left_out)
        for place in program.wide:
            wide.setdefault(why_wide(place), {})[place_words(place)] = None
    for reason, places in wide.items():
        shown = ", ".join(list(places)[:SHOWN_PLACES])
        more = f" and {len(places) - SHOWN_PLACES} more places" if len(places) > SHOWN_PLACES else ""
        found.append(f"In float32 under a mixed policy: {shown}{more}: {reason}.")
    if num_left_out:
        found.append(f"In float32 under a mixed policy: {num_left_out} more places, of which no list was kept.")
    return found
