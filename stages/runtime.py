"""Print the packages that train the study, such as cuda. Make asks; only the parser and NVML must be installed."""

import argparse
import platform
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.files.yaml_files import load
from pipeline.machine.hardware import Hardware, ask_driver, this_machine
from pipeline.study.runtimes import RUNTIMES
from stages import run

TENSORFLOW_CAPABILITIES = (6.0, 9.0)  # which its wheels hold kernels for
UNKNOWN = "unknown"  # what is wrong with the study, stages.check says


def main(arguments: argparse.Namespace) -> None:
    study = _values(Path("params.yaml"))
    asked = [study]
    if arguments.profile:  # a difference from the base
        asked = [_values(Path("conf", "profile", f"{arguments.profile}.yaml")), _values(Path("conf", "base.yaml"))]
    said = next((values["runtime"] for values in asked if values.get("runtime") in RUNTIMES), UNKNOWN)
    if said == UNKNOWN or not arguments.here:
        print(said)
        return
    same = arguments.profile in (None, study.get("name")) and study.get("runtime") in RUNTIMES
    finished = same and any(Path("runs").glob("*/*/seed-*/record.json"))
    engine, line = choose(said, study["runtime"] if finished else None)
    print(said, engine, line)


def choose(said: str, finished: str | None) -> tuple[str, str]:
    """Return one of `RUNTIMES`, and a line that says what is here, why this one, and how to choose another.

    Args:
        said: what the study or its profile says. `cpu` is what each says that does not ask for anything.
        finished: what the finished runs of the study were made with; None where there are none.
    """
    gpus, fault = ask_driver()
    hardware = this_machine()
    engine, why = _for(hardware)
    if finished:
        engine, why = finished, "as the finished runs of this study"
    elif said != "cpu":
        engine, why = said, "as the study says"
    found = "no GPU and no TPU" if hardware.kind == "cpu" else hardware.name
    if hardware.compute_capability:
        found += f", compute capability {hardware.compute_capability}"
    if len(gpus) > 1:
        found = f"{len(gpus)} GPUs, the first of them {found}"
    if fault:
        found += f" (NVIDIA's driver answers: {fault})"
    first, *others = (name for name in RUNTIMES if name != engine)
    another = f"ENGINE={first} (or {', '.join(others)})"
    return engine, f"found {found}: ENGINE={engine}, {why}. To choose another, add to the command: {another}"


def _for(hardware: Hardware) -> tuple[str, str]:
    """Return what trains on this hardware, and why."""
    if hardware.kind == "tpu":
        return "tpu", "Keras on JAX"
    capability = hardware.compute_capability
    if capability is None:
        return "cpu", "TensorFlow on the CPU"
    lowest, highest = TENSORFLOW_CAPABILITIES
    if capability < lowest:
        return "cpu", f"since the packages for GPUs begin at compute capability {lowest}"
    if platform.machine() != "x86_64":
        return "cpu", f"since the packages for GPUs are not for {platform.machine()}"
    if capability > highest:
        return "cuda-jax", f"Keras on JAX, since TensorFlow's packages end at compute capability {highest}"
    return "cuda", "TensorFlow on the GPU"


def _values(path: Path) -> dict[str, Any]:
    try:
        values = load(path)
    except InputError:
        return {}
    return values if isinstance(values, dict) else {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.runtime", description=__doc__)
    parser.add_argument("--profile", help="of this profile, not of params.yaml")
    parser.add_argument(
        "--here", action="store_true", help="print also what the hardware here takes, and a line that says why"
    )
    run(main, parser)
