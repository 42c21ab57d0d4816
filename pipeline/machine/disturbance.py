"""Watch what else runs on the machine while a run trains, and what slows the machine down."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pynvml

from pipeline.machine.hardware import visible_gpus
from pipeline.records.run_record import Disturbance

CGROUP = Path("/sys/fs/cgroup/cpu.stat")
# Reasons why a GPU's clock is below the requested one, by NVML's bits. Idling is left out.
_THROTTLE_REASONS = {
    "power cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "power brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    "hardware slowdown": pynvml.nvmlClocksEventReasonHwSlowdown,
    "heat": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "heat limit": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
}

UNDISTURBED = Disturbance(  # nothing was seen
    other_cpu_share=None,
    cpu_quota_seconds=None,
    num_gpu_processes=None,
    gpu_throttle_reasons=None,
    min_gpu_clock_mhz=None,
)


def timing_fault(disturbance: Disturbance) -> str | None:
    """Return why times measured under `disturbance` can't be used, or None."""
    others = (disturbance.num_gpu_processes or 1) - 1
    return f"{others} other process{'es' * (others > 1)} on its GPU" if others else None


class Watch:
    """Watch the machine from creation to `finish`; call `look` once an epoch, outside the timed window.

    Args:
        gpus: the GPUs of the run, by their places among the visible ones.
        pid: the run's process, or the one whose descendants wait for their turn; by default, this process.
    """

    def __init__(self, gpus: Sequence[int] = (), pid: int | None = None) -> None:
        visible = visible_gpus() if gpus else []
        self._gpus = [visible[place] for place in gpus if place < len(visible)]
        self._num_processes: list[int] = []
        self._clocks: list[int] = []
        self._reasons: set[str] = set()
        self._run = _Run(pid)
        self._cpu, self._own_seconds = psutil.cpu_times(), self._run.cpu_seconds()
        self._quota = _quota_seconds()

    def look(self) -> None:
        self._run.cpu_seconds()
        own = self._run.pids()
        for gpu in self._gpus:
            running: set[int] = set()
            with contextlib.suppress(pynvml.NVMLError):
                running = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)}
            # A container may hide which processes are ours: then count as many as compute here.
            others = running - own if running & own else list(running)[self._run.num_leaves() :]
            self._num_processes.append(len(others) + 1 if running else 0)
            with contextlib.suppress(pynvml.NVMLError):
                self._clocks.append(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM))
            with contextlib.suppress(pynvml.NVMLError):
                bits = pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
                self._reasons |= {name for name, bit in _THROTTLE_REASONS.items() if bits & bit}

    def finish(self) -> Disturbance:
        quota = _quota_seconds()
        return Disturbance(
            other_cpu_share=self._other_cpu_share(),
            cpu_quota_seconds=None if quota is None or self._quota is None else quota - self._quota,
            # A container may hide even our own process: then nothing is known of others.
            num_gpu_processes=max(self._num_processes, default=0) or None,
            gpu_throttle_reasons=sorted(self._reasons) if self._clocks else None,
            min_gpu_clock_mhz=min(self._clocks, default=None),
        )

    def _other_cpu_share(self) -> float | None:
        cpu, own_seconds = psutil.cpu_times(), self._run.cpu_seconds() - self._own_seconds
        # Guests' time is part of user time already.
        spent = {name: getattr(cpu, name) - getattr(self._cpu, name) for name in cpu._fields if "guest" not in name}
        total = sum(spent.values())
        idle = spent["idle"] + spent.get("iowait", 0.0)
        return min(max((total - idle - own_seconds) / total, 0.0), 1.0) if total > 0 else None


class _Run:
    """Find the processes of a run: process `pid`, by default this one, and its descendants."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._seconds: dict[psutil.Process, float] = {}  # of each process, as it was last seen
        self._parents: dict[psutil.Process, int] = {}

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that all processes have used since they started.

        A process that has ended counts up to when it was last seen.
        """
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                # A process includes the time of a child that has ended, once it has waited for the child.
                seconds, self._parents[process] = sum(process.cpu_times()[:4]), process.ppid()
                self._seconds[process] = seconds
        pids = self.pids()
        for process in [seen for seen in self._seconds if not seen.is_running() and self._parents[seen] in pids]:
            del self._seconds[process]
        return sum(self._seconds.values())

    def num_leaves(self) -> int:
        """Count the processes without children: a process that has started others does not compute itself."""
        pids = self.pids()
        return len(pids - {parent for process, parent in self._parents.items() if process.pid in pids})

    def pids(self) -> set[int]:
        return {process.pid for process in self._seconds if process.is_running()}

    def _processes(self) -> Iterator[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):  # the process may have ended by now
            process = psutil.Process(self._pid)
            yield process
            for child in process.children(recursive=True):
                if "multiprocessing.resource_tracker" not in " ".join(child.cmdline()):  # which computes nothing
                    yield child


def _quota_seconds() -> float | None:
    try:
        counts = dict(line.split() for line in CGROUP.read_text(encoding="utf-8").splitlines())
        return int(counts["throttled_usec"]) / 1e6
    except (OSError, KeyError, ValueError):
        return None
