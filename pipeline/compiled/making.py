"""Make `compiled/<target>.json`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.compiled.compiler import Compiler
from pipeline.compiled.lowering import ENVIRONMENT, versions
from pipeline.compiled.programs import programs
from pipeline.compiled.schema import COMPILED_FILES, CompiledProgram, CompiledTarget, read_target
from pipeline.compiled.sources import COMPILERS_LOCK, source_digests
from pipeline.compiled.targets import Target
from pipeline.errors import InputError
from pipeline.files.writing import write_whole

UNFINISHED = Path(".cache/compiled")
# What decides whether an unchanged program would be read as it was.
READERS = tuple(f"pipeline/compiled/{name}.py" for name in ("lowering", "optimised", "reading", "schema"))
Say = Callable[[str], None]


def make_target(target: Target, say: Say, folder: Path = COMPILED_FILES, benchmarks: Sequence[str] = ()) -> None:
    """Compile everything for `target` and write it down.

    Args:
        folder: where the file lies, or will. A program that has not changed since then is not compiled again.
        benchmarks: the names of those to compile and nothing else; by default all.
    """
    path = folder / f"{target.name}.json"
    unfinished = UNFINISHED / path.name
    made = _empty(target)
    known = [*_known(made, path), *_known(made, unfinished)]
    with Compiler(target, known) as compiler:
        for program in programs(target):
            if benchmarks and program.benchmark not in benchmarks:
                continue
            found = compiler.compile(program)
            made.programs.append(found)
            if found not in known:
                _write(made, unfinished)
            say(f"{target.name}: {program.name}: {describe_program(made, found)}")
    _write(made, path)
    unfinished.unlink(missing_ok=True)


def describe_program(made: CompiledTarget, found: CompiledProgram) -> str:
    """Say in a line what the compiler says of a program."""
    if found.memory is None:
        why = "does not fit" if made.fits(found) is False else "is refused"
        return f"{why}: {found.refusal.words[:200] if found.refusal else ''}"
    fits = "" if made.fits(found) else ", which does not fit"
    return f"{found.memory.total / 2**20:,.0f} MiB{fits}, compiled in {found.seconds:.0f} s"


def _write(made: CompiledTarget, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, made.model_dump_json(indent=1) + "\n")


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
