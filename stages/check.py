"""Check params.yaml and claims.yaml whole, before anything runs."""

import argparse
from pathlib import Path

from pipeline import user_code
from pipeline.acceleration import device_of, speed
from pipeline.benchmark import Imported
from pipeline.claims import load_claims
from pipeline.errors import InputError
from pipeline.hardware import Hardware, this_machine
from pipeline.study import PARAMS, Study, load_study
from stages import run

MADE_FOR = {"cpu": "cpu", "cuda": "nvidia_gpu", "tpu": "tpu"}


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
    print(device(arguments.runtime or study.runtime, hardware))
    for warning in slow_choices(study, hardware):
        print(f"note: {warning}")


def check_own_code() -> None:
    """Refuses what is wrong with the user's own modules, as far as it shows without running them."""
    messages = []
    try:
        study = load_study()
    except InputError:
        return  # which is reported by itself
    folders: dict[str, Path] = {}  # around the source of each top-level module
    for name, benchmark in study.benchmarks.items():
        model = benchmark.model
        if isinstance(model, Imported):
            around = Path(model.source).resolve().parent
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


def device(runtime: str, hardware: Hardware) -> str:
    """What trains the study here, and what to do where that is not what its packages are made for."""
    if hardware.kind == MADE_FOR[runtime]:
        return f"trains on {hardware.name}"
    if hardware.kind == "cpu":
        return f"note: the packages are for a {runtime} device and none is visible here; training is on {hardware.name}"
    return (
        f"note: the packages are for a {runtime} device and {hardware.name} is here;"
        " make repro ENGINE=cuda trains on NVIDIA GPUs, ENGINE=tpu on TPUs"
    )


def slow_choices(study: Study, hardware: Hardware) -> list[str]:
    """What of the study this machine can run and does not run fast."""
    slow: dict[str, list[str]] = {}
    for name, variant in study.variants.items():
        if (how := speed(variant.policy, variant.tf32, hardware)) in ("emulated", "no"):
            what = "TF32" if variant.tf32 else variant.policy.removeprefix("mixed_")
            slow.setdefault(f"{what} is {'emulated' if how == 'emulated' else 'not there'}", []).append(name)
    device = device_of(hardware).name
    return [f"on this machine ({device}) {what}; do not expect speed of {', '.join(n)}" for what, n in slow.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.check", description=__doc__)
    parser.add_argument("--runtime", choices=MADE_FOR, help="what will train the study, where that is not what it says")
    run(main, parser)
