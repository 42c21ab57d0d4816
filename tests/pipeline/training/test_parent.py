"""The process that waits for a run, with children that need no engine. tests/engines has those that train."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import REPOSITORY

WAIT = """
import hashlib, os, signal, sys, threading, time
from conftest import small_study
from pipeline.study.schema import RunKey
from pipeline.training import parent, so_far

def work():
    while True:
        hashlib.sha256(bytes(2**20))

study = small_study().model_copy(update={"max_run_seconds": 3.0})
child = parent.fork()
if not child.pid:
    if len(sys.argv) > 1:
        os.kill(os.getpid(), int(sys.argv[1]))
    child.pipe.send(so_far.SoFar(time.perf_counter(), {}, None))
    for _ in range(os.cpu_count()):
        threading.Thread(target=work).start()
    while True:
        time.sleep(0.1)
        print(time.process_time(), flush=True)
so_far.finish = lambda study, key, so_far, outcome, watch, *_: watch.finish().other_cpu_share
sys.exit(parent.wait(child, study, RunKey("wide", "float32", 0), lambda share: print("share", share)))
"""


def wait(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"}
    command = [sys.executable, "-c", WAIT, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_work_of_a_run_that_is_too_slow_for_an_epoch_is_its_own():
    """It keeps every CPU busy: what is left for others is at most the rest, whatever else runs here."""
    done = wait()
    assert done.returncode == 0, done.stderr
    *_, seconds, _, share = done.stdout.split()
    assert float(share) <= 1 - float(seconds) / (3.0 * os.cpu_count()) + 0.1


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGSEGV])
def test_where_a_signal_ended_the_run_it_ends_so_too(number):
    """SIGUSR1, of which a scheduler warns, ends a run that does not listen yet."""
    assert wait(str(int(number))).returncode == -number
