"""Compile programs for one target as they are asked for, a JSON line each, and answer each with a JSON line."""

import argparse
import json
import sys

from pipeline.compiled.lowering import open_compiler
from pipeline.compiled.programs import Step
from pipeline.compiled.targets import find_target
from stages import run


def main(arguments: argparse.Namespace) -> None:
    compile_program = open_compiler(find_target(arguments.target))
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(compile_program(Step.model_validate(asked["program"]), asked["known"])), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.compile_program", description=__doc__)
    parser.add_argument("--target", required=True)
    run(main, parser)
