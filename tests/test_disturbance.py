import hashlib
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from conftest import make_record

from pipeline import disturbance
from pipeline.study import RunKey

NUM_CPUS = psutil.cpu_count()


def work(seconds: float) -> None:
    """Keeps a CPU busy, and lets other threads run meanwhile."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        hashlib.sha256(bytes(2**20))


def test_our_own_work_is_not_disturbance():
    """We keep every CPU busy: what is left for others is at most the rest, whatever else runs here."""
    watch = disturbance.Watch(has_gpu=False)
    started, ours = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(NUM_CPUS) as pool:
        list(pool.map(work, [1.0] * NUM_CPUS))
    share = watch.finish().other_cpu_share
    rest = 1 - (time.process_time() - ours) / (NUM_CPUS * (time.perf_counter() - started))
    assert 0 <= share <= rest + 0.1


def test_the_work_of_another_process_is_disturbance():
    watch = disturbance.Watch(has_gpu=False)
    started, theirs = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "sum(range(50_000_000))"], check=True)
    seconds, done = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    share = watch.finish().other_cpu_share
    assert 0.8 * (done.ru_utime - theirs.ru_utime) / (NUM_CPUS * seconds) <= share <= 1


def test_without_a_gpu_nothing_is_claimed_about_one():
    watch = disturbance.Watch(has_gpu=True)
    if watch._device is not None:
        pytest.skip("this machine has a GPU")
    watch.look()
    seen = watch.finish()
    assert (seen.num_gpu_processes, seen.gpu_throttle_reasons, seen.min_gpu_clock_mhz) == (None, None, None)


@pytest.mark.parametrize(("count", "fault"), [(None, None), (1, None), (2, "1 other process on its GPU")])
def test_another_process_on_the_gpu_invalidates_the_times(count, fault):
    seen = make_record(RunKey("wide", "mixed", 0)).disturbance
    assert disturbance.timing_fault(seen.model_copy(update={"num_gpu_processes": count})) == fault


def test_a_cpu_quota_is_read_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(disturbance, "CGROUP", tmp_path / "cpu.stat")
    assert disturbance.Watch(has_gpu=False).finish().cpu_quota_seconds is None
    disturbance.CGROUP.write_text("usage_usec 5\nnr_throttled 2\nthrottled_usec 1500000\n")
    watch = disturbance.Watch(has_gpu=False)
    disturbance.CGROUP.write_text("usage_usec 9\nnr_throttled 4\nthrottled_usec 4000000\n")
    assert watch.finish().cpu_quota_seconds == pytest.approx(2.5)
