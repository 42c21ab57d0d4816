"""NVIDIA's driver, as it would answer on a machine with GPUs: none is there where the tests run."""

from types import SimpleNamespace

import pynvml
import pytest


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The numbers of the processes on each GPU, to be changed at will; its UUID also stands for NVML's handle."""
    running: dict[str, list[int]] = {"GPU-aa1": [], "GPU-ab2": [], "GPU-ac3": []}
    clocks = dict(zip(running, (1000, 900, 800), strict=True))
    names = dict(zip(running, ("NVIDIA H200", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"), strict=True))
    capabilities = dict(zip(running, ((9, 0), (8, 0), (7, 0)), strict=True))
    millijoules = dict(zip(running, (10_000, 20_000, 30_000), strict=True))
    functions = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(running),
        "nvmlDeviceGetHandleByIndex": list(running).__getitem__,
        "nvmlDeviceGetUUID": lambda gpu: gpu,
        "nvmlDeviceGetName": names.__getitem__,
        "nvmlDeviceIsMigDeviceHandle": lambda _: False,
        "nvmlDeviceGetCudaComputeCapability": capabilities.__getitem__,
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=2**34),
        "nvmlDeviceGetTotalEnergyConsumption": millijoules.__getitem__,
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [SimpleNamespace(pid=pid) for pid in running[gpu]],
        "nvmlDeviceGetClockInfo": lambda gpu, _: clocks[gpu],
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    }
    for name, function in functions.items():
        monkeypatch.setattr(pynvml, name, function)
    return running


def show(monkeypatch: pytest.MonkeyPatch, *gpus: tuple[str, str], fault: int | None = None) -> None:
    """These GPUs, by name and compute capability, in place of any others; a fault is one of NVML's numbers."""

    def begin() -> None:
        if fault is not None:
            raise pynvml.NVMLError(fault)

    functions = {
        "nvmlInit": begin,
        "nvmlDeviceGetCount": lambda: len(gpus),
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda gpu: f"GPU-{gpu}",
        "nvmlDeviceGetName": lambda gpu: gpus[gpu][0],
        "nvmlDeviceIsMigDeviceHandle": lambda _: False,
        "nvmlDeviceGetCudaComputeCapability": lambda gpu: tuple(map(int, gpus[gpu][1].split("."))),
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=2**34),
    }
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, function in functions.items():
        monkeypatch.setattr(pynvml, name, function)
