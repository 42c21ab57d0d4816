"""Check params.yaml and claims.yaml whole, before anything runs."""

import argparse

from pipeline.acceleration import device_of, speed
from pipeline.claims import load_claims
from pipeline.errors import InputError
from pipeline.hardware import this_machine
from pipeline.study import Study, load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    messages = []
    for load in (load_study, load_claims):
        try:
            load()
        except InputError as error:
            messages.append(str(error))
    if messages:
        raise InputError("\n".join(messages))
    for warning in slow_choices(load_study()):
        print(f"note: {warning}")


def slow_choices(study: Study) -> list[str]:
    """What of the study this machine can run and does not run fast."""
    hardware = this_machine()
    slow: dict[str, list[str]] = {}
    for name, variant in study.variants.items():
        if (how := speed(variant.policy, variant.tf32, hardware)) in ("emulated", "no"):
            what = "TF32" if variant.tf32 else variant.policy.removeprefix("mixed_")
            slow.setdefault(f"{what} is {'emulated' if how == 'emulated' else 'not there'}", []).append(name)
    device = device_of(hardware).name
    return [f"on this machine ({device}) {what}; do not expect speed of {', '.join(n)}" for what, n in slow.items()]


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.check", description=__doc__))
