"""Train one variant of a study in blocks: read tasks, a JSON line each such as [20], and answer in JSON lines."""

import argparse
import json
import os
import sys
from pathlib import Path

from pipeline.machine import environment
from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.job import end_with_it
from pipeline.records.blocks import Block
from pipeline.speed.worker import Task
from pipeline.study.schema import load_study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a model of anyone's prints is no answer
    study = load_study(arguments.study)
    choose_engine(study.engine, [study.variants[arguments.variant].policy])
    from pipeline import engine  # which takes seconds to import
    from pipeline.speed.training import train_blocks

    if arguments.environment:
        found = environment.describe(study.runtime, engine.accelerators(), engine.version(), engine.kernels())
        arguments.environment.write_text(json.dumps(found), encoding="utf-8")

    def answer(block: Block) -> None:
        print(block.model_dump_json(), file=answers, flush=True)

    tasks = (Task(*json.loads(line)) for line in sys.stdin)
    train_blocks(study, arguments.benchmark, arguments.variant, tasks, answer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.train_blocks", description=__doc__)
    parser.add_argument("--study", required=True, type=Path, help="a file such as params.yaml")
    parser.add_argument("--benchmark", required=True, help="a benchmark of it")
    parser.add_argument("--variant", required=True, help="a variant of it")
    parser.add_argument("--environment", type=Path, help="a file to write what it trains on to, in JSON")
    end_with_it("its blocks are lost.")
    run(main, parser)
