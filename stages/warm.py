"""Import the engine, and fork a process for each run that `stages.train` asks for. `stages.repro` starts it."""

import argparse
import socket

from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.warm import serve
from stages import run
from stages.train import make_as_asked


def main(arguments: argparse.Namespace) -> None:
    choose_engine(arguments.engine, [arguments.policy])
    import pipeline.training.run  # noqa: F401  which every child finds imported

    serve(socket.socket(fileno=arguments.listener), make_as_asked)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.warm", description=__doc__)
    parser.add_argument("engine", help="of the study")
    parser.add_argument("policy", help="one of those whose kernels it computes with")
    parser.add_argument("listener", type=int, help="the number of the socket that it serves")
    run(main, parser)
