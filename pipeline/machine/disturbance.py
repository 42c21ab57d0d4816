"""Watch what else ran on the machine while a run trained, and whether something held the machine back."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pynvml

from pipeline.machine.hardware import visible_gpus
from pipeline.records.run_record import Disturbance

CGROUP = Path("/sys/fs/cgroup/cpu.stat")
# Reasons that a GPU's clock is below what it was asked for, as NVML names their bits; idling is not among them.
_THROTTLE_REASONS = {
    "power cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "power brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    "hardware slowdown": pynvml.nvmlClocksEventReasonHwSlowdown,
    "heat": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "heat limit": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
}

UNDISTURBED = Disturbance(  # as far as anybody saw
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
        gpus: those the run computes on, by their places among the visible ones.
        pid: the process of the run, or the one whose descendants wait for their turn; by default, this one.
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
            # A container may hide which of them are ours: then as many are as compute here.
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
    """Find the processes of a run: the one of this number, or this one, and its descendants."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._seconds: dict[psutil.Process, float] = {}  # of each process, as it was last seen
        self._parents: dict[psutil.Process, int] = {}

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes since their start.

        A process that has ended counts as far as it was seen.
        """
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                # Of children that have ended, a process has the time once it has taken note of their end.
                seconds, self._parents[process] = sum(process.cpu_times()[:4]), process.ppid()
                self._seconds[process] = seconds
        pids = self.pids()
        for process in [seen for seen in self._seconds if not seen.is_running() and self._parents[seen] in pids]:
            del self._seconds[process]
        return sum(self._seconds.values())

    def num_leaves(self) -> int:
        """Count the processes that have no child: where a process has started others, these compute."""
        pids = self.pids()
        return len(pids - {parent for process, parent in self._parents.items() if process.pid in pids})

    def pids(self) -> set[int]:
        return {process.pid for process in self._seconds if process.is_running()}

    def _processes(self) -> Iterator[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has ended by now has none
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
