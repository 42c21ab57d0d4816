"""Make `compiled/<target>.json`."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pipeline.compiled.compiler import ANSWERS, Compiler
from pipeline.compiled.largest import SEARCHED_NUMBERS, largest_fitting
from pipeline.compiled.lowering import ENVIRONMENT, versions
from pipeline.compiled.programs import programs, recipes, step_of
from pipeline.compiled.schema import COMPILED_FILES, CompiledProgram, CompiledTarget, LargestBatch, read_target
from pipeline.compiled.sources import COMPILERS_LOCK, source_digests
from pipeline.compiled.targets import StepNumbers, Target
from pipeline.errors import InputError
from pipeline.files.writing import write_whole
from pipeline.study.benchmark import Benchmark

# The largest batch is looked for where a claim or a reader asks for it, and for a network with convolutions: the
# weights of the dense one outweigh its activations.
SEARCHED = {"v100-16gb", "tpu-v5e", "h100"}
# What decides whether an unchanged program would be read as it was.
READERS = tuple(f"pipeline/compiled/{name}.py" for name in ("lowering", "optimised", "reading", "schema"))
Say = Callable[[str], None]


class NotKeptError(Exception):
    """Tell that a program has not been compiled, where nothing is to be compiled."""


def make_target(
    target: Target, say: Say, folder: Path = COMPILED_FILES, benchmarks: Sequence[str] = (), *, only_kept: bool = False
) -> None:
    """Compile everything for `target` and write it down.

    Args:
        folder: where the file lies, or will. A program that has not changed since then is not compiled again.
        benchmarks: the names of those to compile and nothing else; by default all, and products too.
        only_kept: compile no further programs than those in the file and those of an earlier, interrupted call. Where
            there are none, no file is written.
    """
    path = folder / f"{target.name}.json"
    made = _empty(target)
    answers = ANSWERS if folder == COMPILED_FILES else folder / "answers"
    with Compiler(target, _known(made, path), answers) as compiler:
        for program in programs(target):
            wanted = not benchmarks or getattr(program, "benchmark", None) in benchmarks
            if not wanted or (only_kept and not compiler.keeps(program)):
                continue
            found = compiler.compile(program)
            made.programs.append(found)
            say(f"{target.name}: {program.name}: {describe_program(made, found)}")
        for numbers in () if benchmarks else SEARCHED_NUMBERS[target.kind]:
            for largest in _largest_batches(numbers, target, compiler, made, only_kept):
                made.largest_batches.append(largest)
                say(f"{target.name}: {largest.benchmark} {numbers}: a batch of {largest.fits} fits")
    if only_kept and not made.programs:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, made.model_dump_json(indent=1) + "\n")


def describe_program(made: CompiledTarget, found: CompiledProgram) -> str:
    """Say in a line what the compiler says of a program."""
    if found.memory is None:
        why = "does not fit" if made.fits(found) is False else "is refused"
        return f"{why}: {found.refusal.words[:200] if found.refusal else ''}"
    fits = "" if made.fits(found) else ", which does not fit"
    return f"{found.memory.total / 2**20:,.0f} MiB{fits}, compiled in {found.seconds:.0f} s"


def _largest_batches(
    numbers: StepNumbers, target: Target, compiler: Compiler, made: CompiledTarget, only_kept: bool
) -> Iterator[LargestBatch]:
    if target.name not in SEARCHED or numbers not in target.numbers:
        return
    for name, benchmark in recipes().items():

        def needed_bytes(size: int, name: str = name, benchmark: Benchmark = benchmark) -> int | None:
            step = step_of(name, benchmark, numbers, size)
            if only_kept and not compiler.keeps(step):
                raise NotKeptError
            found = compiler.compile(step)
            if made.find(name, numbers, size) is None:
                made.programs.append(found)
            if made.fits(found) is None:
                raise InputError(f"{target.title} refuses a batch of {size}: {found.refusal}")
            return found.memory.total if found.memory else None

        if benchmark.model.name == "dense":
            continue
        try:
            fits, does_not_fit = largest_fitting(needed_bytes, target.memory_bytes, benchmark.batch_size)
        except NotKeptError:
            continue
        yield LargestBatch(benchmark=name, numbers=numbers, fits=fits, does_not_fit=does_not_fit)


def _empty(target: Target) -> CompiledTarget:
    installed = versions(target)
    return CompiledTarget(
        target=target.name,
        title=target.title,
        kind=target.kind,
        memory_bytes=target.memory_bytes,
        description=target.description(installed),
        flags=ENVIRONMENT["XLA_FLAGS"] if target.kind == "gpu" else "",
        versions=installed,
        sources=source_digests(),
        programs=[],
        largest_batches=[],
    )


def _known(now: CompiledTarget, path: Path) -> list[CompiledProgram]:
    """Return the programs of the file at `path`, where today's compiler compiled them and today's code read them."""
    if not path.exists():
        return []
    try:
        known = read_target(now.target, path.parent)
    except InputError:
        return []  # it is made again
    same = all(known.sources.get(source) == now.sources[source] for source in (*READERS, COMPILERS_LOCK))
    return known.programs if same and known.description == now.description else []
