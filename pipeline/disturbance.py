"""What else ran on the machine while a run trained, and whether something held the machine back."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pynvml

from pipeline.records import Disturbance

CGROUP = Path("/sys/fs/cgroup/cpu.stat")
THROTTLE_COUNTS = "devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"
# Reasons that a GPU's clock is below what it was asked for, as NVML names their bits; idling is not among them.
_THROTTLE_REASONS = {
    "power cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "power brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    "hardware slowdown": pynvml.nvmlClocksEventReasonHwSlowdown,
    "heat": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "heat limit": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
}


def timing_fault(disturbance: Disturbance) -> str | None:
    """Why times measured under `disturbance` can't be used, or None."""
    others = (disturbance.num_gpu_processes or 1) - 1
    return f"{others} other process{'es' * (others > 1)} on its GPU" if others else None


class Watch:
    """Watches from its creation to `finish`; `look` is called once an epoch, outside the timed window."""

    def __init__(self, has_gpu: bool) -> None:
        self._device = _gpu() if has_gpu else None
        self._num_processes: list[int] = []
        self._clocks: list[int] = []
        self._reasons: set[str] = set()
        self._process = psutil.Process()
        self._cpu, self._own = psutil.cpu_times(), self._process.cpu_times()
        self._quota, self._events = _quota_seconds(), _thermal_events()

    def look(self) -> None:
        if self._device is None:
            return
        with contextlib.suppress(pynvml.NVMLError):
            self._num_processes.append(len(pynvml.nvmlDeviceGetComputeRunningProcesses(self._device)))
        with contextlib.suppress(pynvml.NVMLError):
            self._clocks.append(pynvml.nvmlDeviceGetClockInfo(self._device, pynvml.NVML_CLOCK_SM))
        with contextlib.suppress(pynvml.NVMLError):
            bits = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._device)
            self._reasons |= {name for name, bit in _THROTTLE_REASONS.items() if bits & bit}

    def finish(self) -> Disturbance:
        quota, events = _quota_seconds(), _thermal_events()
        return Disturbance(
            other_cpu_share=self._other_cpu_share(),
            cpu_quota_seconds=None if quota is None or self._quota is None else quota - self._quota,
            num_thermal_events=None if events is None or self._events is None else events - self._events,
            # A container may hide even our own process: then nothing is known of others.
            num_gpu_processes=max(self._num_processes, default=0) or None,
            gpu_throttle_reasons=sorted(self._reasons) if self._clocks else None,
            min_gpu_clock_mhz=min(self._clocks, default=None),
        )

    def _other_cpu_share(self) -> float | None:
        cpu, own = psutil.cpu_times(), self._process.cpu_times()
        # Guests' time is part of user time already.
        spent = {name: getattr(cpu, name) - getattr(self._cpu, name) for name in cpu._fields if "guest" not in name}
        total = sum(spent.values())
        idle = spent["idle"] + spent.get("iowait", 0.0)
        ours = own.user + own.system - self._own.user - self._own.system
        return min(max((total - idle - ours) / total, 0.0), 1.0) if total > 0 else None


def _gpu() -> Any:
    """NVML's handle of the first GPU this process may use; None without a driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    try:
        pynvml.nvmlInit()
        if visible.isdigit():
            return pynvml.nvmlDeviceGetHandleByIndex(int(visible))
        return pynvml.nvmlDeviceGetHandleByUUID(visible)
    except pynvml.NVMLError:
        return None


def _quota_seconds() -> float | None:
    try:
        counts = dict(line.split() for line in CGROUP.read_text(encoding="utf-8").splitlines())
        return int(counts["throttled_usec"]) / 1e6
    except (OSError, KeyError, ValueError):
        return None


def _thermal_events() -> int | None:
    counts = list(_readable(Path("/sys").glob(THROTTLE_COUNTS)))
    return sum(counts) if counts else None


def _readable(paths: Iterator[Path]) -> Iterator[int]:
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            yield int(path.read_text(encoding="utf-8"))
