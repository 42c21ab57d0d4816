"""Say how much faster each variant of a benchmark trains: short blocks of all of them, in turns."""

import argparse
import os
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path

from pipeline.errors import InputError
from pipeline.machine.hardware import this_machine
from pipeline.machine.job import end_with_it
from pipeline.study.schema import load_study
from stages import run

SPEEDS = Path("results/speed")


def main(arguments: argparse.Namespace) -> None:
    study = load_study()
    if arguments.benchmark not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {arguments.benchmark}")
    from pipeline.speed.measuring import measure_benchmark, write_measurement  # with signals blocked: it starts threads

    # Processes that wait would hold an accelerator's memory.
    side_by_side = this_machine().kind == "cpu" or study.runtime == "cpu"
    measurement, speeds, environment = measure_benchmark(
        study, arguments.benchmark, side_by_side, partial(print, flush=True)
    )
    write_measurement(study, arguments.benchmark, measurement, environment, SPEEDS)
    half_width = speeds.half_width()
    known = "no interval of speed" if half_width is None else f"speed is known to ±{100 * half_width:.1f} %"
    print(f"{arguments.benchmark}: {known} after {measurement.spent_seconds:.0f} s: {measurement.ended_because}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.speed", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
    os.environ["PYTHONSAFEPATH"] = "1"  # or what multiprocessing starts looks in this folder for Python's own modules
    resource_tracker.ensure_running()  # or multiprocessing starts it later, and unblocks signals then
    end_with_it("the same command measures again.")
    run(main, parser)
