"""Measure how fast each variant of a benchmark trains, in short blocks that the variants train in turns."""

import argparse
from functools import partial
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.locks import at_work
from pipeline.files.places import SPEED
from pipeline.machine.environment import device_name_here
from pipeline.machine.hardware import driver, this_machine
from pipeline.machine.left_out import study_here
from pipeline.store.identity import SPEED_CODE, check_current, check_read, of_speed
from pipeline.store.kept import made, obtain, set_aside
from pipeline.store.plan import is_final, num_stops_of_speed
from pipeline.study.schema import Study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    study, name = planned(arguments.benchmark), arguments.benchmark
    if name not in study.timed_benchmarks:
        if (SPEED / name).exists():
            set_aside(SPEED / name)
        (SPEED / name).mkdir(parents=True)
        (SPEED / name / "untimed.txt").write_text("The study does not time this benchmark.\n", encoding="utf-8")
        return

    of = of_speed(study, name, device_name_here(), driver())

    def make(folder: Path) -> None:
        from pipeline.speed.measuring import measure_benchmark, write_measurement

        side_by_side = this_machine().kind != "tpu"  # only one process can use a TPU
        check = partial(check_read, study, name, SPEED_CODE, of)
        measurement = measure_benchmark(study, name, folder, side_by_side, partial(print, flush=True), check)
        stopped = None if arguments.again else made(SPEED / name, of, lambda _: True)
        write_measurement(measurement, folder, num_stops=num_stops_of_speed(stopped) if stopped else 0)
        launches = f"{len(measurement.launches)} launches in {measurement.spent_seconds:.0f} s"
        print(f"{name}: {launches}: {measurement.ended_because}")

    with at_work():
        how = obtain(SPEED / name, of, make, is_final, arguments.again)
    if how != "made":
        print(f"{name}: its speed is measured already")
    check_current({name: of}, {name: of_speed(planned(name), name, device_name_here(), driver())})


def planned(name: str) -> Study:
    """Return the study in this folder, without the variants that are left out on this machine.

    Raises:
        InputError: the study is faulty, or has no benchmark `name`.
    """
    study = study_here()
    if name not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {name}")
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.speed", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
    parser.add_argument("--again", action="store_true", help="measure again what is measured already")
    run(main, parser)
