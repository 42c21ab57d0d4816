"""Compile the sources' steps for hardware that is not here, and note what its compilers say: compiled/<target>.json."""

import argparse
from functools import partial
from pathlib import Path

from pipeline.compiled.making import make_target
from pipeline.compiled.programs import recipes
from pipeline.compiled.schema import COMPILED_FILES
from pipeline.compiled.targets import TARGETS, find_target
from pipeline.errors import InputError
from stages import run


def main(arguments: argparse.Namespace) -> None:
    say = partial(print, flush=True)
    chosen = [find_target(name) for name in arguments.targets or TARGETS]
    known = recipes()
    if unknown := [name for name in arguments.benchmark if name not in known]:
        raise InputError(f"--benchmark: must be one of {', '.join(known)}. Received: {', '.join(unknown)}")
    if arguments.benchmark and arguments.out.resolve() == COMPILED_FILES.resolve():
        raise InputError(
            f"--benchmark compiles a part, and {COMPILED_FILES}/ holds whole files: name a folder with --out."
        )
    for target in chosen:
        make_target(target, say, arguments.out, arguments.benchmark)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.compiled", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"some of {', '.join(TARGETS)}; by default all")
    parser.add_argument("--benchmark", action="append", default=[], help="compile this one and nothing else")
    parser.add_argument("--out", type=Path, default=COMPILED_FILES, help="the folder of the files (compiled)")
    run(main, parser)
