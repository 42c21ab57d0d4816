"""Compile programs for one target as they are asked for, a JSON line each, and answer with where the result lies."""

import argparse
import gzip
import json
import sys
from pathlib import Path

from pipeline.compiled.lowering import open_compiler
from pipeline.compiled.programs import Step
from pipeline.compiled.targets import find_target
from pipeline.files.writing import whole
from stages import run


def main(arguments: argparse.Namespace) -> None:
    compile_program = open_compiler(find_target(arguments.target))
    for line in sys.stdin:
        asked = json.loads(line)
        found = compile_program(Step.model_validate(asked["program"]), asked["known"])
        with whole(Path(asked["path"])) as partial, gzip.open(partial, "wt", encoding="utf-8") as file:
            json.dump(found, file)
        print(json.dumps({"path": asked["path"]}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.compile_program", description=__doc__)
    parser.add_argument("--target", required=True)
    run(main, parser)
