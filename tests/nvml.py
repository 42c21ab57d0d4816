"""NVIDIA's driver, as it would answer on a machine with three GPUs: none is there where the tests run."""

from types import SimpleNamespace

import pynvml
import pytest


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The numbers of the processes on each GPU, to be changed at will; its UUID also stands for NVML's handle."""
    running: dict[str, list[int]] = {"GPU-aa1": [], "GPU-ab2": [], "GPU-ac3": []}
    clocks = dict(zip(running, (1000, 900, 800), strict=True))
    names = dict(zip(running, ("NVIDIA H200", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"), strict=True))
    millijoules = dict(zip(running, (10_000, 20_000, 30_000), strict=True))
    functions = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(running),
        "nvmlDeviceGetHandleByIndex": list(running).__getitem__,
        "nvmlDeviceGetUUID": lambda gpu: gpu,
        "nvmlDeviceGetName": names.__getitem__,
        "nvmlDeviceGetTotalEnergyConsumption": millijoules.__getitem__,
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [SimpleNamespace(pid=pid) for pid in running[gpu]],
        "nvmlDeviceGetClockInfo": lambda gpu, _: clocks[gpu],
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    }
    for name, function in functions.items():
        monkeypatch.setattr(pynvml, name, function)
    return running
