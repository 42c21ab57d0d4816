"""Find out what a training step's time goes to, under each policy: results/step_profile.csv."""

import argparse
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from pipeline.files.writing import csv_text
from pipeline.machine.hardware import this_machine
from pipeline.numerics.step_profile import profile_step
from pipeline.records.step_profile import STEP_PROFILE, ProfiledKind
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import load_study
from pipeline.study.variant import Variant
from stages import run


def profiled(name: str, benchmark: Benchmark, variant: Variant) -> list[ProfiledKind]:
    """Profile a step in a process of its own; return nothing where memory is too small for it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        try:
            found = process.submit(profile_step, name, benchmark, variant).result()
        except BrokenProcessPool:  # the system ended it
            found = []
    most = max(found, key=lambda each: each.milliseconds, default=None)
    words = f"{most.kind} takes {100 * most.share:.0f} % of a step" if most else "not profiled: too little memory?"
    print(f"{name} {variant.policy}: {words}", flush=True)
    return found


def main(_: argparse.Namespace) -> None:
    study = load_study()
    on_cpu = this_machine().kind == "cpu" or study.runtime == "cpu"
    rows: list[ProfiledKind] = []
    if study.engine == "tensorflow" and on_cpu and study.numerics == "all":
        for name, benchmark in study.benchmarks.items():
            for variant in study.variants_of(name).values():
                if variant.is_plain(study.engine) and variant.batch_multiplier == 1:
                    rows += profiled(name, benchmark, variant)
    STEP_PROFILE.parent.mkdir(exist_ok=True)
    text = csv_text(list(ProfiledKind.model_fields), (row.model_dump() for row in rows))
    STEP_PROFILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.profile", description=__doc__))
