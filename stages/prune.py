"""Delete results from the store (.cache/) that the study in params.yaml can't use with these packages and device."""

import argparse

from pipeline.machine.environment import device_name_here
from pipeline.machine.hardware import driver
from pipeline.machine.left_out import study_here
from pipeline.store.identity import of_runs, of_speed
from pipeline.store.kept import prune
from stages import run


def main(_: argparse.Namespace) -> None:
    study = study_here()
    wanted = [of for benchmark in study.benchmarks for of in of_runs(study, benchmark).values()]
    wanted += [of_speed(study, benchmark, device_name_here(), driver()) for benchmark in study.timed_benchmarks]
    print(f"{prune(wanted)} folders that this study would not use are gone from .cache/")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.prune", description=__doc__))
