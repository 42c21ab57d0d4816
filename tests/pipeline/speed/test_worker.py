"""The processes that train variants' blocks, as the one that measures sees them: each answers, or says why it ended."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from conftest import REPOSITORY

from pipeline.errors import InputError
from pipeline.speed.worker import Task, workers

SERVES = """
import os, signal, socket, sys, time
from pipeline.machine.warm import serve
from pipeline.records.blocks import Block

def train(pipe):
    is_bad = pipe.recv() == "bad"
    while True:
        task = pipe.recv()
        if is_bad:
            {bad}
        pipe.send(Block(outcome="diverged", num_steps=task.num_steps + task.with_validation))

{first}
serve(socket.socket(fileno=int(sys.argv[1])), train)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that starts workers by a module of this code."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))

    def start(*variants, bad="pass", first="", max_seconds=60.0):
        path = tmp_path / "trainer.py"
        path.write_text(SERVES.format(bad=bad, first=first))
        return workers({"a": [sys.executable, str(path)]}, [("a", variant) for variant in variants], max_seconds)

    return start


def test_each_process_answers_each_task(start):
    with start("one", "another") as (one, another):
        answers = [train(task).num_steps for train in (one, another, one) for task in (Task(100), Task(50, True))]
    assert answers == [100, 51] * 3


def test_processes_are_forked_from_those_that_are_named(tmp_path, start):
    start()  # which writes the module
    commands = {name: [sys.executable, str(tmp_path / "trainer.py")] for name in "ab"}
    with workers(commands, [("a", "one"), ("b", "another"), ("a", "third")], None) as trains:
        parents = [psutil.Process(train.args[1].pid).ppid() for train in trains]
    assert parents[0] == parents[2] != parents[1]


@pytest.mark.parametrize(
    ("code", "outcome", "max_seconds"),
    [
        ("os.kill(os.getpid(), 9)", "out_of_memory", None),  # as the system ends it
        ("time.sleep(600)", "too_slow", 0.5),
    ],
)
def test_a_process_that_is_ended_has_an_outcome_and_the_others_go_on(start, code, outcome, max_seconds):
    with start("bad", "good", bad=code, max_seconds=max_seconds) as (bad, good):
        assert bad(Task(1)).outcome == outcome
        assert good(Task(3)).num_steps == 3


def test_a_process_that_fails_says_why(start, capfd):
    bad = start("bad", bad="print('error: no such thing', file=sys.stderr); sys.exit(2)")
    with pytest.raises(InputError, match=r"process that trained bad ended with status"), bad as (train,):
        train(Task(1))
    assert "no such thing" in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the socket that nobody answered
def test_a_process_that_starts_none_says_why(start, capfd):
    with pytest.raises(InputError, match="ended before it trained one"), start("one", first="raise OSError('torn')"):
        pass
    assert "torn" in capfd.readouterr().err


def test_none_is_left_at_the_end_whatever_it_does(start):
    with ThreadPoolExecutor(1) as pool, start("good", "bad", bad="time.sleep(600)") as (_, bad):
        pool.submit(bad, Task(1))
        process = psutil.Process(bad.args[1].pid)
        time.sleep(0.2)
    assert not process.is_running()
