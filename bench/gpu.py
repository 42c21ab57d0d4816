"""Describe the GPU that trains: its name, the energy it has used, and what its data sheet promises."""

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import pynvml

from pipeline.machine.hardware import visible_gpus
from pipeline.study.variant import Variant

# Dense products a second, from NVIDIA's data sheets (SXM where there are several): 16-bit, TF32, float32.
PEAK_TERAFLOPS = {
    "H200": (989, 495, 67),
    "H100": (989, 495, 67),
    "A100": (312, 156, 19.5),
    "L4": (121, 60, 30.3),
    "T4": (65, None, 8.1),
    "V100": (125, None, 15.7),
}


def gpu_of(places: Sequence[int]) -> Any:
    """Return NVML's handle of the first of the GPUs at these places among the visible ones; None where a CPU trains."""
    visible = visible_gpus()
    return visible[places[0]] if places and places[0] < len(visible) else None


def name(gpu: Any) -> str | None:
    """Return the name that its driver gives a GPU."""
    return None if gpu is None else str(pynvml.nvmlDeviceGetName(gpu))


def joules(gpu: Any) -> float | None:
    """Return the energy a GPU has used since its driver was loaded; None if nothing counts it (Volta and later do)."""
    with contextlib.suppress(pynvml.NVMLError):
        return None if gpu is None else float(pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)) / 1000
    return None


def peak(variant: Variant, name_of_gpu: str | None) -> float | None:
    """Return the operations a second that the data sheet promises in the variant's type; None where none is known."""
    words = re.split(r"[\s-]", name_of_gpu or "")
    rates = next((rates for device, rates in PEAK_TERAFLOPS.items() if device in words), None)
    if rates is None:
        return None
    rate = rates[1] if variant.tf32 else rates[2] if variant.policy == "float32" else rates[0]
    return rate and rate * 1e12
