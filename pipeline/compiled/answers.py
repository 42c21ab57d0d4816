"""Answer the questions that claims and readers ask of compiled programs. Pure functions, which need no engine."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.compiled.schema import COMPILED_FILES, CompiledProgram, CompiledTarget, LargestBatch, read_target
from pipeline.compiled.targets import TARGETS
from pipeline.files.untrusted import Remedy, damaged

COMPILED_AGAIN = Remedy(*["Compile it again: make compiled"] * 2)
NARROW = ("bfloat16", "float16")
# What readers see in place of the keys of a step's numbers.
NUMBERS = {
    "float32": "strict float32",
    "float32_default": "float32 as the device multiplies it by default",
    "mixed_float16": "mixed_float16",
    "mixed_bfloat16": "mixed_bfloat16",
}


class OperationShare(NamedTuple):
    """Count some operations out of all there are."""

    num_chosen: int
    num_all: int


class Padding(NamedTuple):
    """Bytes that a product of this width takes beyond its own: in its arguments and result, and in copies of them."""

    width: int
    in_place: int
    in_copies: int


def read_compiled(folder: Path = COMPILED_FILES) -> list[CompiledTarget]:
    """Return what was compiled, in the order of the targets; nothing of those that have no file.

    Raises:
        InputError: a file is damaged, or says what can't be.
    """
    found = [read_target(name, folder) for name in TARGETS if (folder / f"{name}.json").exists()]
    for made in found:
        if what := _impossible(made):
            raise damaged(folder / f"{made.target}.json", what, COMPILED_AGAIN)
    return found


def _impossible(made: CompiledTarget) -> str:
    """Say what no compiler can have said; nothing where there is no such thing. Ratios are taken of what it said."""
    if any(program.memory and program.memory.total <= 0 for program in made.programs):
        return "a program in it takes no memory"
    sizes = [(each.fits or 0, each.does_not_fit) for each in made.largest_batches]
    return "a batch in it fits and does not fit" if any(no is not None and no <= yes for yes, no in sizes) else ""


def memory_ratio(made: CompiledTarget, benchmark: str, numbers: str, batch_size: int) -> float | None:
    """Return the memory of a step in `numbers` over that in strict float32, at the same batch; None if one has none.

    It is the ratio of what is allocated. That is what a device has to give, and what its allocator measures of a run.
    """
    ours, theirs = (made.find(benchmark, each, batch_size) for each in (numbers, "float32"))
    if not ours or not theirs or not ours.memory or not theirs.memory:
        return None
    return ours.memory.total / theirs.memory.total


def step_fits(made: CompiledTarget, benchmark: str, numbers: str, batch_size: int) -> bool | None:
    """Return whether a step fits into the memory; None where it was not compiled, or refused for another reason."""
    found = made.find(benchmark, numbers, batch_size)
    return made.fits(found) if found else None


def largest_batch_of(made: CompiledTarget, benchmark: str, numbers: str) -> LargestBatch | None:
    """Return the largest batch that was found to fit; None where it was not looked for."""
    wanted = (benchmark, numbers)
    return next((found for found in made.largest_batches if (found.benchmark, found.numbers) == wanted), None)


def largest_batch_ratio(made: CompiledTarget, benchmark: str, numbers: str) -> tuple[float, float] | None:
    """Return bounds on how many times strict float32's largest batch fits in `numbers`.

    Each of the two largest batches lies between the size that was found to fit and the one that was found not to.
    """
    ours, theirs = (largest_batch_of(made, benchmark, each) for each in (numbers, "float32"))
    if not ours or not theirs or not ours.fits or not theirs.fits:
        return None
    if not ours.does_not_fit or not theirs.does_not_fit:
        return None
    return ours.fits / (theirs.does_not_fit - 1), (ours.does_not_fit - 1) / theirs.fits


def in_16_bits(program: CompiledProgram, kinds: Sequence[str] = ("convolution", "product")) -> OperationShare:
    """Count the operations of these kinds all of whose operands have 16 bits."""
    chosen = [operation for operation in program.operations if operation.kind in kinds]
    narrow = [operation for operation in chosen if set(operation.operands.split(" × ")) <= set(NARROW)]
    return OperationShare(sum(operation.count for operation in narrow), sum(operation.count for operation in chosen))


def place_words(place: str) -> str:
    """Return where in a model an operation stands, as in "dense_1, backward", from the name that JAX gave it."""
    *scopes, _ = [part for part in place.split("/") if not part.startswith("jit(")]
    names = [re.sub(r"^(?:transpose\()?jvp\((.*?)\)+$", r"\1", scope) for scope in scopes]
    layer = "/".join(names[1:] or names) or "outside of the layers"
    if place.startswith("transpose("):
        return f"{layer}, backward"
    return f"{layer}, forward" if place.startswith("jvp(") else layer


def rounded_to_16_bits(program: CompiledProgram) -> OperationShare:
    """Count the operations with an operand that the compiler keeps in 16 bits, whatever the policy says."""
    rounded = [each for each in program.operations if set(each.operands.split(" × ")) & set(NARROW)]
    return OperationShare(sum(each.count for each in rounded), sum(each.count for each in program.operations))


def paddings(made: CompiledTarget, numbers: str, widths: Iterable[int], aligned: int = 4096) -> list[Padding]:
    """Return the padding of products of these widths that are multiplied in 16 bits.

    A product that the compiler widens to float32 has copies of another kind, which grow with the width. Temporaries
    beyond those of the `aligned` width are copies: what that one has is the library's workspace.
    """
    reference = made.find_product(numbers, aligned)
    found = []
    for width in widths:
        product = made.find_product(numbers, width)
        narrow = product and 0 < in_16_bits(product).num_chosen == in_16_bits(product).num_all
        if product and narrow and product.memory and product.wanted_bytes and reference and reference.memory:
            in_place = product.memory.arguments + product.memory.outputs - product.wanted_bytes
            in_copies = product.memory.temporaries - reference.memory.temporaries
            found.append(Padding(width, max(0, in_place), max(0, in_copies)))
    return found


def cycle_ratio(program: CompiledProgram | None, other: CompiledProgram | None) -> float | None:
    """Return the compiler's estimate of cycles of a program over that of another. To be shown, never judged."""
    if not program or not other or not program.estimated_cycles or not other.estimated_cycles:
        return None
    return program.estimated_cycles / other.estimated_cycles
