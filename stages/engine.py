"""Print the engine for this machine, such as cuda-jax, and the reason.

`make` runs this command before it installs the engine's packages.
"""

import argparse
import json
from pathlib import Path

from pipeline.machine.hardware import Hardware, ask_driver, this_machine
from pipeline.study.engines import ENGINES
from stages import run


def main(_: argparse.Namespace) -> None:
    print(*choose())


def finished_by() -> str | None:
    """Return the engine that made a finished run in this folder, or None if there is no finished run."""
    for path in Path("runs").glob("*/*/seed-*/record.json"):
        return str(json.loads(path.read_bytes())["environment"]["runtime"])
    return None


def choose() -> tuple[str, str]:
    """Return one of `ENGINES`, and a line with the hardware found, the reason, and a way to choose another engine."""
    gpus, fault = ask_driver()
    hardware = this_machine()
    engine, why = _for(hardware)
    if (finished := finished_by()) in ENGINES:
        engine, why = str(finished), "as the finished runs here"
    found = "no GPU and no TPU" if hardware.kind == "cpu" else hardware.name
    if hardware.compute_capability:
        found += f", compute capability {hardware.compute_capability}"
    if len(gpus) > 1:
        found = f"{len(gpus)} GPUs, the first of them {found}"
    if fault:
        found += f" (NVIDIA's driver answers: {fault})"
    first, *others = (name for name in ENGINES if name != engine)
    another = f"ENGINE={first} (or {', '.join(others)})"
    return engine, f"found {found}: ENGINE={engine}, {why}. To choose another, add to the command: {another}"


def _for(hardware: Hardware) -> tuple[str, str]:
    """Return the engine for this hardware, and the reason."""
    if hardware.kind == "tpu":
        return "tpu", "Keras on JAX"
    if hardware.compute_capability is None:
        return "cpu", "TensorFlow on the CPU"
    return "cuda-jax", "Keras on JAX, which has been measured on GPUs; ENGINE=cuda is TensorFlow"


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.engine", description=__doc__))
