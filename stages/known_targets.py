"""Refuse targets that there are none of, before their compilers are installed. It needs no packages."""

import argparse

from pipeline.compiled.targets import find_target
from stages import run


def main(arguments: argparse.Namespace) -> None:
    for name in arguments.targets:
        find_target(name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.known_targets", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    run(main, parser)
