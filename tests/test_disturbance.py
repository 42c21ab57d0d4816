import multiprocessing
import time

import pytest
from conftest import make_record

from pipeline import disturbance
from pipeline.study import RunKey


def work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_our_own_work_is_not_disturbance_and_that_of_another_process_is():
    watch = disturbance.Watch(has_gpu=False)
    work(1.0)
    alone = watch.finish().other_cpu_share

    other = multiprocessing.get_context("spawn").Process(target=work, args=(2.0,))
    watch = disturbance.Watch(has_gpu=False)
    other.start()
    work(2.0)
    beside = watch.finish().other_cpu_share
    other.join()
    assert 0 <= alone < beside <= 1


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
