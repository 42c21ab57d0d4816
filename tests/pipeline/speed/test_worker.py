"""The processes that train variants' blocks, as the one that measures sees them: each answers, or says why it ended."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from conftest import REPOSITORY
from endings import SECONDS, gone, receive_signals, wait_for

from pipeline.errors import InputError
from pipeline.records.blocks import Block
from pipeline.speed.worker import Task, workers


def prepare(variants):
    match variants[0]:
        case "torn":
            raise OSError("no such library")
        case "missing":
            raise InputError("no such engine")
        case "stuck":
            time.sleep(600)


def train(variant, tasks, answer):
    """Answer with the number of steps and, in place of that of images, this process's identifier."""
    for task in tasks:
        match variant:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)  # as the system ends it
            case "slow":
                time.sleep(600)
            case "faulty":
                raise InputError("no such thing")
            case "broken":
                raise ZeroDivisionError("by nothing")
            case "crashed":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "leaving":
                sys.exit()
        answer(Block(outcome="diverged", num_steps=task.num_steps + task.with_validation, num_images=os.getpid()))


def test_each_process_answers_each_task():
    with workers(["one", "another"], prepare, train) as (one, another):
        found = [train(task) for train in (one, another, one) for task in (Task(100), Task(50, True))]
    assert [block.num_steps for block in found] == [100, 51] * 3
    assert len({block.num_images for block in found}) == 2


def test_a_process_that_waits_for_a_task_is_not_too_slow():
    with workers(["good"], prepare, train, max_seconds=0.5) as (good,):
        for _ in range(2):
            assert good(Task(1)).outcome == "diverged"
            time.sleep(0.8)


@pytest.mark.parametrize(
    ("variant", "outcome", "max_seconds"), [("killed", "out_of_memory", 0.0), ("slow", "too_slow", 0.5)]
)
def test_a_process_that_is_ended_has_an_outcome_and_the_others_go_on(variant, outcome, max_seconds):
    with workers([variant, "good"], prepare, train, max_seconds) as (bad, good):
        assert bad(Task(1)).outcome == outcome
        assert good(Task(3)).num_steps == 3


def test_one_limit_holds_for_what_comes_before_they_are_forked_too():
    with workers(["stuck", "good"], prepare, train, max_seconds=0.5) as trains, ThreadPoolExecutor() as pool:
        asked = [pool.submit(ask, Task(1)) for ask in trains]
        assert [each.result().outcome for each in asked] == ["too_slow"] * 2


@pytest.mark.parametrize(
    ("variant", "message", "told"),
    [
        ("faulty", "^no such thing$", ""),
        ("missing", "^no such engine$", ""),
        ("broken", "^the process that trained broken ended with status 1", "ZeroDivisionError: by nothing"),
        ("crashed", "^the process that trained crashed ended with status -11", "Segmentation fault"),
        ("leaving", "^the process that trained leaving ended with status 0", ""),
        ("torn", "^the process that trained torn ended with status 1", "OSError: no such library"),
    ],
)
def test_a_process_that_fails_says_why(capfd, variant, message, told):
    with pytest.raises(InputError, match=message), workers([variant], prepare, train) as (bad,):
        bad(Task(1))
    assert told in capfd.readouterr().err


def test_what_a_process_never_read_does_not_hide_why_it_ended():
    with pytest.raises(InputError, match="ended with status 1"), workers(["torn"], prepare, train) as (bad,):  # noqa: PT012
        time.sleep(3)
        bad(Task(1))


def test_none_is_left_at_the_end_whatever_it_does():
    with ThreadPoolExecutor(1) as pool, workers(["slow", "good"], prepare, train) as (slow, good):
        process = psutil.Process(good(Task(1)).num_images)
        busy = [child for child in process.parent().children() if child != process]
        assert len(busy) == 1
        pool.submit(slow, Task(1))
        time.sleep(0.2)
    wait_for(lambda: all(map(gone, (process, *busy))), SECONDS)


MEASURES = """
import time
from multiprocessing import resource_tracker
from pipeline.machine.job import end_with_it
from pipeline.records.blocks import Block
from pipeline.speed.worker import Task, workers

def prepare(_):
    pass

def train(variant, tasks, answer):
    for task in tasks:
        time.sleep(600 * (variant == "slow"))
        answer(Block(outcome="diverged"))

if __name__ == "__main__":
    resource_tracker.ensure_running()
    end_with_it("its blocks are lost.")
    with workers(["good", "slow"], prepare, train) as (good, slow):
        good(Task(1))
        print("they train", flush=True)
        slow(Task(1))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_they_end_with_the_process_that_measures(tmp_path, how):
    (tmp_path / "measures.py").write_text(MEASURES)
    with psutil.Popen(
        [sys.executable, "measures.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=receive_signals,
    ) as measuring:
        assert measuring.stdout.readline() == "they train\n"
        others = measuring.children(recursive=True)
        assert len(others) >= 3
        measuring.send_signal(how) if how == signal.SIGKILL else os.killpg(measuring.pid, how)  # as Ctrl-C does
        assert "Traceback" not in measuring.stdout.read()  # until all have closed it
        wait_for(lambda: all(map(gone, others)), SECONDS)
