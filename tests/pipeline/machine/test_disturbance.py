"""Whatever else runs on the machine counts as disturbance, and our own work does not."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pynvml
import pytest
from nvml import show

from pipeline.machine import disturbance

NUM_CPUS = psutil.cpu_count()


@contextlib.contextmanager
def elsewhere() -> Iterator[psutil.Process]:
    """A process that is no descendant of ours and keeps a CPU busy until the end of the block."""
    shell = 'nohup "$@" >/dev/null 2>&1 & echo $!'
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", "while True: sum(range(10_000))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    process = psutil.Process(int(done.stdout))
    try:
        yield process
    finally:
        process.kill()


def seconds_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


class Share:
    """The share of other work while a block runs, and what it would be if nothing had been idle."""

    def __enter__(self) -> "Share":
        self.watch, self.started = disturbance.Watch(), time.perf_counter()
        return self

    def end(self, our_seconds: float) -> None:
        self.rest = 1 - our_seconds / (NUM_CPUS * (time.perf_counter() - self.started))
        self.found = self.watch.finish().other_cpu_share

    def __exit__(self, *_: object) -> None:
        assert 0 <= self.found <= 1


def test_our_own_work_and_that_of_child_processes_does_not_count_as_disturbance():
    """We keep every CPU busy: what is left for others is at most the rest, whatever else runs here."""
    with Share() as share:
        command, ours = [sys.executable, "-c", "while True: sum(range(10_000))"], time.process_time()
        with contextlib.ExitStack() as stack:
            children = [stack.enter_context(subprocess.Popen(command)) for _ in range(NUM_CPUS - 1)]
            while time.process_time() < ours + 1:
                pass
            seconds = sum(seconds_of(psutil.Process(child.pid)) for child in children)
            share.end(seconds + time.process_time() - ours)
            for child in children:
                child.kill()
    assert share.found <= share.rest + 0.1


def test_work_of_another_process_counts_as_disturbance():
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(elsewhere()) for _ in range(NUM_CPUS)]
        share, before = stack.enter_context(Share()), sum(map(seconds_of, others))
        time.sleep(1)
        share.end(sum(map(seconds_of, others)) - before)
    assert 1 - share.rest - 0.1 <= share.found


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The numbers of the processes on each of three GPUs, by its UUID, to be changed at will."""
    running: dict[str, list[int]] = {"GPU-aa1": [], "GPU-ab2": [], "GPU-ac3": []}
    show(monkeypatch, *[("NVIDIA H200", "9.0")] * 3, uuids=list(running))
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetComputeRunningProcesses",
        lambda gpu: [SimpleNamespace(pid=pid) for pid in running[gpu]],
    )
    return running


def test_only_the_gpu_of_the_run_is_watched(driver, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2,0")
    driver |= {"GPU-ab2": [1], "GPU-ac3": [os.getpid()], "GPU-aa1": [os.getpid(), 1]}
    watch = disturbance.Watch(1)
    watch.look()
    assert disturbance.timing_fault(watch.finish()) is None
    assert watch.finish().num_gpu_processes == 1
    driver["GPU-ac3"].append(1)
    watch.look()
    assert disturbance.timing_fault(watch.finish()) == "1 other process on its GPU"


def test_the_number_of_gpu_processes_is_unknown_if_no_gpu_is_visible(driver, monkeypatch):
    driver["GPU-aa1"] = [os.getpid(), 1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    watch = disturbance.Watch(0)
    watch.look()
    assert watch.finish().num_gpu_processes is None


def test_sibling_processes_disturb_a_run_but_not_turns(driver):
    """The processes of a stage are siblings. A speed measurement counts them all as its own, a run only itself."""
    command = [sys.executable, "-c", "input()"]
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        pids = [stack.enter_context(subprocess.Popen(command, **pipes)).pid for _ in range(3)]
        for running in (pids, [2**22 + number for number in range(3)]):  # a container may hide their numbers
            driver["GPU-aa1"] = running
            speed, run = disturbance.Watch(0, os.getpid()), disturbance.Watch(0, pids[0])
            for watch in (speed, run):
                watch.look()
            assert disturbance.timing_fault(speed.finish()) is None
            assert disturbance.timing_fault(run.finish()) == "2 other processes on its GPU"
            running.append(1)
            speed.look()
            assert disturbance.timing_fault(speed.finish()) == "1 other process on its GPU"
