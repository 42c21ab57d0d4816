"""Whoever else is ended of those between `make` and a training process, and what may end or stop without ending it."""

import signal
import sys
import time

import pytest
from endings import SECONDS, end_one, gone, started, wait_for


@pytest.mark.parametrize(
    ("who", "how"),
    [
        ("make", signal.SIGINT),
        ("make", signal.SIGKILL),
        ("the command", signal.SIGTERM),
        ("the command", signal.SIGKILL),
        ("DVC", signal.SIGTERM),
        ("its shell", signal.SIGTERM),
        ("its shell", signal.SIGKILL),
    ],
)
def test_training_ends_with_each_that_started_it(tmp_path, who, how):
    end_one(tmp_path, who, how)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_training_ends_with_a_dvc_that_runs_alone(tmp_path, how):
    with started(tmp_path, "dvc", "repro") as (first, others):
        first.send_signal(how)
        wait_for(lambda: all(map(gone, others)), SECONDS)


@pytest.mark.parametrize("job_control", ["set -m", "set +m"])
def test_a_shell_that_put_it_in_the_background_may_end(tmp_path, job_control):
    """`nohup make repro &`, then a log-out, or the end of a script: with the script it shares a process group."""
    command = f"{job_control}; make study & while ! [ -e trains ]; do sleep 0.1; done; sleep 1"
    with started(tmp_path, "bash", "-c", command) as (first, others):
        wait_for(lambda: first.poll() is not None, SECONDS)
        time.sleep(2.5)
        assert [process for process in others if not gone(process) and process.cmdline()[-1] == "training.py"]


def test_training_that_was_suspended_goes_on(tmp_path):
    """Ctrl-Z, and `fg` after more than the second for which it waits for signals."""
    with started(tmp_path, sys.executable, "training.py") as (first, _):
        first.suspend()
        time.sleep(2.5)
        first.resume()
        time.sleep(2.5)
        assert first.poll() is None
        first.send_signal(signal.SIGTERM)
        wait_for(lambda: first.poll() is not None, SECONDS)
    assert first.returncode == 128 + signal.SIGTERM
