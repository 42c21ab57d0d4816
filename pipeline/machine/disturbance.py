"""Measure how much other programs use the CPUs and the GPU while a run trains."""

import contextlib

import psutil
import pynvml

from pipeline.machine.hardware import visible_gpus
from pipeline.records.run_record import Disturbance


def timing_fault(disturbance: Disturbance) -> str | None:
    """Return the reason why times measured under `disturbance` can't be used, or None if they can be used."""
    others = (disturbance.num_gpu_processes or 1) - 1
    return f"{others} other process{'es' * (others > 1)} on its GPU" if others else None


class Watch:
    """Watch the machine from the creation of this object until `finish` is called.

    Call `look` once per epoch or block of steps, outside the timed window.

    Args:
        gpu: the index of the run's GPU among the visible GPUs, or None without a GPU.
        pid: the run's process, or the process that measures variants in turns. By default, this process. The process
            and its descendants do not count as other programs.
    """

    def __init__(self, gpu: int | None = None, pid: int | None = None) -> None:
        # A container may hide the driver's library, and with it the GPU, although the engine computes on that GPU.
        self._gpu = None if gpu is None else next(iter(visible_gpus()[gpu:]), None)
        self._pid = pid
        self._num_processes = 0  # the largest number seen on the GPU
        self._cpu, self._own_seconds = psutil.cpu_times(), self._cpu_seconds()

    def look(self) -> None:
        if self._gpu is None:
            return
        run = self._processes()
        # A process that has started others does not compute itself.
        num_computing = len(run.keys() - {parent for parent, _ in run.values()})
        running: set[int] = set()
        with contextlib.suppress(pynvml.NVMLError):
            running = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(self._gpu)}
        # A container may hide which processes on the GPU are ours. Then assume that we have `num_computing` of them.
        others = running - run.keys() if running & run.keys() else list(running)[num_computing:]
        self._num_processes = max(self._num_processes, len(others) + 1 if running else 0)

    def finish(self) -> Disturbance:
        # A container may hide even our own process. Then the number is 0, and nothing is known about other processes.
        return Disturbance(other_cpu_share=self._other_cpu_share(), num_gpu_processes=self._num_processes or None)

    def _other_cpu_share(self) -> float | None:
        cpu, own_seconds = psutil.cpu_times(), self._cpu_seconds() - self._own_seconds
        # User time already includes the time of guests, which are virtual machines on this machine.
        spent = {name: getattr(cpu, name) - getattr(self._cpu, name) for name in cpu._fields if "guest" not in name}
        total = sum(spent.values())
        idle = spent["idle"] + spent.get("iowait", 0.0)
        return min(max((total - idle - own_seconds) / total, 0.0), 1.0) if total > 0 else None

    def _cpu_seconds(self) -> float:
        return sum(seconds for _, seconds in self._processes().values())

    def _processes(self) -> dict[int, tuple[int, float]]:
        """Return the parent and the CPU seconds of the run's process and of each descendant, by pid.

        A process's CPU seconds include those of its ended children, once the process has waited for these children.
        """
        found = {}
        run = psutil.Process(self._pid)
        for process in [run, *run.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):  # the process may have ended by now
                if "multiprocessing.resource_tracker" not in " ".join(process.cmdline()):  # this computes nothing
                    found[process.pid] = process.ppid(), sum(process.cpu_times()[:4])
        return found
