"""Choose what trains a study by the hardware that is here. Only the driver is asked; no engine is imported."""

import platform

from pipeline.machine.hardware import Hardware, ask_driver, this_machine
from pipeline.study.runtimes import RUNTIMES

TENSORFLOW_CAPABILITIES = (6.0, 9.0)  # which its wheels hold kernels for


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
    another = f"make repro ENGINE={first} (or {', '.join(others)})"
    return engine, f"found {found}: ENGINE={engine}, {why}. To choose another: {another}"


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
