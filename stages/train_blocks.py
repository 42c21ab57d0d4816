"""Fork a process for each variant of a study that `stages.speed` asks for; each trains blocks as it is told to."""

import argparse
import json
import socket
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline.machine import environment
from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.warm import serve
from pipeline.speed.worker import Task
from pipeline.study.schema import load_study
from stages import ending_in_words, run


def main(arguments: argparse.Namespace) -> None:
    choose_engine(load_study(arguments.study).engine, [arguments.policy])
    if arguments.warm:
        import pipeline.speed.training  # noqa: F401  which every child finds imported

    serve(socket.socket(fileno=arguments.listener), partial(train, arguments))


def train(arguments: argparse.Namespace, pipe: Connection) -> None:
    """Train the variant that comes through `pipe`, then a block for each task."""
    with ending_in_words():
        from pipeline import engine  # which takes seconds to import
        from pipeline.speed.training import train_blocks

        study, variant = load_study(arguments.study), pipe.recv()
        if variant == study.comparison.baseline:
            found = environment.describe(study.runtime, engine.accelerators(), engine.version(), engine.kernels())
            arguments.environment.write_text(json.dumps(found), encoding="utf-8")
        pipe.poll(None)  # before its first task it takes no memory
        train_blocks(study, arguments.benchmark, variant, tasks(pipe), pipe.send)


def tasks(pipe: Connection) -> Iterator[Task]:
    while True:
        try:
            yield pipe.recv()
        except EOFError:  # whoever asked has ended
            return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.train_blocks", description=__doc__)
    parser.add_argument("--study", required=True, type=Path, help="a file such as params.yaml")
    parser.add_argument("--benchmark", required=True, help="a benchmark of it")
    parser.add_argument("--policy", required=True, help="one of those whose kernels it computes with")
    parser.add_argument("--environment", required=True, type=Path, help="where what it trains on is written, in JSON")
    parser.add_argument("--warm", action="store_true", help="import the engine before processes are forked")
    parser.add_argument("listener", type=int, help="the number of the socket that it serves")
    run(main, parser)
