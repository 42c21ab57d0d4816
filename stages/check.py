"""Check params.yaml and claims.yaml whole, before anything runs."""

import argparse

from pipeline.acceleration import device_of, speed
from pipeline.claims import load_claims
from pipeline.errors import InputError
from pipeline.hardware import Hardware, this_machine
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
    study, hardware = load_study(), this_machine()
    for warning in idle_devices(study, hardware) + slow_choices(study, hardware):
        print(f"note: {warning}")


def idle_devices(study: Study, hardware: Hardware) -> list[str]:
    """Whether the locked packages are those for the device this machine has."""
    if hardware.kind == "nvidia_gpu" and study.runtime == "cpu":
        return [
            f"this machine has {hardware.name}, and the study trains on the CPU; for the GPU: make repro ENGINE=cuda"
        ]
    if study.runtime == "cuda" and hardware.kind != "nvidia_gpu":
        return ["runtime cuda, and no NVIDIA GPU or no driver of it is seen here: training runs on the CPU"]
    if study.runtime == "tpu" and hardware.kind == "cpu":
        return ["runtime tpu, and no TPU is seen here: training runs on the CPU, several times slower than TensorFlow"]
    return []


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
    run(main, argparse.ArgumentParser(prog="python -m stages.check", description=__doc__))
