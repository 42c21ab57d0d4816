"""Check params.yaml and claims.yaml whole, before anything runs."""

import argparse
import os
from pathlib import Path

from pipeline.claims.acceleration import speed
from pipeline.claims.schema import load_claims
from pipeline.errors import InputError
from pipeline.machine.hardware import Hardware, this_machine
from pipeline.study import user_code
from pipeline.study.benchmark import Imported
from pipeline.study.runtimes import RUNTIMES
from pipeline.study.schema import PARAMS, Study, load_study
from stages import run

MADE = ("data", "inputs", "runs", "results")  # folders that DVC writes: what makes one can't depend on it


def main(arguments: argparse.Namespace) -> None:
    messages = []
    for load in (load_study, load_claims, check_own_code):
        try:
            load()
        except InputError as error:
            messages.append(str(error))
    if messages:
        raise InputError("\n".join(messages))
    study, hardware = load_study(), this_machine()
    print(describe_device(arguments.runtime or study.runtime, hardware))
    for warning in slow_choices(study, hardware):
        print(f"note: {warning}")


def check_own_code() -> None:
    """Refuse faults of the user's own modules, as far as they show without running them."""
    messages = []
    try:
        study = load_study()
    except InputError:
        return  # which is reported by itself
    folders: dict[str, Path] = {}  # around the source of each top-level module
    for name, benchmark in study.benchmarks.items():
        model = benchmark.model
        if isinstance(model, Imported):
            source = Path(os.path.realpath(model.source))
            if made := [name for name in MADE if Path(name).absolute().is_relative_to(source)]:
                messages.append(
                    f"{PARAMS}: benchmarks.{name}.model.source: {model.source} holds {made[0]}/, which the study "
                    "makes. Give your code a folder of its own."
                )
            around = source.parent
            if (other := folders.setdefault(model.module.partition(".")[0], around)) != around:
                messages.append(
                    f"{PARAMS}: benchmarks.{name}.model: {model.module} is in {around}, and another benchmark's module "
                    f"of that name in {other}. One process reads both: give them names of their own."
                )
            try:
                user_code.check_function(model.module, model.function, Path(model.source))
            except InputError as error:
                messages.append(f"{PARAMS}: benchmarks.{name}.model: {error}")
    if messages:
        raise InputError("\n".join(messages))


def describe_device(runtime: str, hardware: Hardware) -> str:
    """Say what trains the study here, and what to do if its packages are made for something else."""
    if hardware.kind == RUNTIMES[runtime].hardware:
        return f"trains on {hardware.name}"
    if hardware.kind == "cpu":
        return f"note: the packages are for a {runtime} device and none is visible here; training is on {hardware.name}"
    return (
        f"note: the packages are for a {runtime} device and {hardware.name} is here;"
        " make repro ENGINE=cuda-jax or ENGINE=cuda trains on NVIDIA GPUs, ENGINE=tpu on TPUs"
    )


def slow_choices(study: Study, hardware: Hardware) -> list[str]:
    """Name the choices of the study that this machine can run, but not fast."""
    slow: dict[str, list[str]] = {}
    for name, variant in study.variants.items():
        if (how := speed(variant.policy, variant.tf32, hardware)) in ("emulated", "no"):
            what = "TF32" if variant.tf32 else variant.policy.removeprefix("mixed_")
            there = "not computed in hardware" if how == "emulated" else "not there"
            slow.setdefault(f"{what} is {there}", []).append(name)
    return [f"{what} on this machine: do not expect speed of {', '.join(names)}" for what, names in slow.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.check", description=__doc__)
    parser.add_argument("--runtime", choices=RUNTIMES, help="what will train the study, where that is not what it says")
    run(main, parser)
