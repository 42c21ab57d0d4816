"""Ask the compiler of a device about one model: whether a step fits, at which batch, and what stays in float32."""

from collections.abc import Callable, Iterable
from functools import cache

from pipeline.compiled.answers import NUMBERS, in_16_bits, place_words
from pipeline.compiled.compiler import Compiler
from pipeline.compiled.largest import SEARCHED_NUMBERS, largest_fitting
from pipeline.compiled.programs import step_of
from pipeline.compiled.schema import CompiledProgram, LargestBatch
from pipeline.compiled.targets import StepNumbers, Target
from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark

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


def why_wide(place: str) -> str:
    """Say why an operation at this place of a model under a mixed policy has float32 operands."""
    return next((reason for word, reason in REASONS if word in place.lower()), OTHERWISE)


def ask_compiler(
    compiler: Compiler,
    target: Target,
    name: str,
    benchmark: Benchmark,
    data: tuple[tuple[int, int, int], int],
    say: Callable[[str], None],
) -> tuple[list[CompiledProgram], list[LargestBatch]]:
    """Return a step of `benchmark` at its batch in each of the target's numbers, and the largest batches searched.

    Raises:
        InputError: the compiler refuses a batch of the search for another reason than its memory.
    """
    programs, largest = [], []
    for numbers in target.numbers:

        @cache
        def compiled(size: int, numbers: StepNumbers = numbers) -> CompiledProgram:
            found = compiler.compile(step_of(name, benchmark, numbers, size, data))
            needed = f"{found.memory.total / 2**20:,.0f} MiB" if found.memory else "refused"
            say(f"{target.name} {numbers} batch {size:,}: {needed}")
            return found

        def needed_bytes(size: int, compiled: Callable[[int], CompiledProgram] = compiled) -> int | None:
            found = compiled(size)
            if found.refusal and not found.refusal.for_memory:
                raise InputError(f"{target.title} refuses a batch of {size:,}: {found.refusal.words}")
            return found.memory.total if found.memory else None

        first = compiled(benchmark.batch_size)
        programs.append(first)
        tells = first.memory or (first.refusal and first.refusal.for_memory)
        if tells and numbers in SEARCHED_NUMBERS[target.kind]:
            fits, does_not_fit = largest_fitting(needed_bytes, target.memory_bytes, benchmark.batch_size)
            largest.append(LargestBatch(benchmark=name, numbers=numbers, fits=fits, does_not_fit=does_not_fit))
    return programs, largest


def sentences(target: Target, programs: Iterable[CompiledProgram], largest: Iterable[LargestBatch]) -> list[str]:
    """Say what the compiler says: a sentence for each kind of numbers, then what stays in float32 and why."""
    found = []
    batches = {each.numbers: each for each in largest}
    wide: dict[str, dict[str, None]] = {}  # the places of each reason, each of them once
    num_left_out = 0
    for program in programs:
        what = f"{NUMBERS[program.numbers]} at batch {program.batch_size:,}"
        limit = _limit(batches.get(program.numbers))
        if program.memory is None:
            words = program.refusal.words if program.refusal else ""
            too_large = program.refusal is not None and program.refusal.for_memory
            outcome = f"does not fit{limit}. The compiler says" if too_large else f"{target.title} refuses it"
            found.append(f"{what}{' ' if too_large else ': '}{outcome}: {words}")
            continue
        fits = "fits" if program.memory.total <= target.memory_bytes else "does not fit"
        share = in_16_bits(program)
        needed, there = program.memory.total / 2**20, target.memory_bytes / 2**20
        found.append(
            f"{what} {fits}: {needed:,.0f} of {there:,.0f} MiB{limit}; "
            f"{share.num_chosen} of {share.num_all} products and convolutions are in 16 bits."
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


def _limit(found: LargestBatch | None) -> str:
    """Say which batch is the largest that fits; nothing where none was searched."""
    if found is None:
        return ""
    return f"; the largest batch that fits is {found.fits:,}" if found.fits else "; no batch fits"
