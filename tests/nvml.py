"""NVIDIA's driver, as it would answer on a machine with GPUs: none is there where the tests run."""

from collections.abc import Sequence
from types import SimpleNamespace

import pynvml
import pytest


def show(
    monkeypatch: pytest.MonkeyPatch, *gpus: tuple[str, str], fault: int | None = None, uuids: Sequence[str] = ()
) -> None:
    """These GPUs, by name and compute capability, in place of any others; a fault is one of NVML's numbers.

    A GPU's UUID, by default GPU-0, GPU-1 and so on, also stands for NVML's handle.
    """
    known = dict(zip(uuids or [f"GPU-{number}" for number in range(len(gpus))], gpus, strict=True))

    def begin() -> None:
        if fault is not None:
            raise pynvml.NVMLError(fault)

    functions = {
        "nvmlInit": begin,
        "nvmlDeviceGetCount": lambda: len(known),
        "nvmlDeviceGetHandleByIndex": list(known).__getitem__,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetUUID": lambda gpu: gpu,
        "nvmlDeviceGetName": lambda gpu: known[gpu][0],
        "nvmlDeviceIsMigDeviceHandle": lambda _: False,
        "nvmlDeviceGetCudaComputeCapability": lambda gpu: tuple(map(int, known[gpu][1].split("."))),
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=2**34),
    }
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, function in functions.items():
        monkeypatch.setattr(pynvml, name, function)
