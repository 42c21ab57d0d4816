"""Run one element of the campaign in this folder, by its number. Without a number, list all elements.

An element is a run, the numerics, a speed measurement or the collection of the results.
"""

import argparse
import os
import sys

from pipeline.campaign.jobs import elements, in_words
from pipeline.errors import InputError
from pipeline.study.schema import load_study
from stages import run

NUMBER = "SLURM_ARRAY_TASK_ID"


def main(arguments: argparse.Namespace) -> None:
    every = elements(load_study())
    if arguments.number is None:
        print("\n".join(f"{number} {in_words(element)}" for number, element in enumerate(every)))
        return
    if not 0 <= arguments.number < len(every):
        raise InputError(f"this campaign's elements are 0 to {len(every) - 1}. Received: {arguments.number}")
    command = [sys.executable, "-m", f"stages.{every[arguments.number][0]}", *every[arguments.number][1:]]
    if every[arguments.number][0] == "collect":
        command += ["--wait", str(arguments.wait)]
    os.execv(sys.executable, command)  # noqa: S606


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.element", description=__doc__)
    parser.add_argument("number", nargs="?", type=int, default=os.environ.get(NUMBER), help=f"by default, ${NUMBER}")
    parser.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS", help="how long the collector waits for the other elements"
    )
    run(main, parser)
