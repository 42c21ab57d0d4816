"""The process that trains a variant's blocks, as the one that measures sees it: it answers, or says why it ended."""

import textwrap
import time

import pytest

from pipeline.errors import InputError
from pipeline.speed.worker import Task, worker


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that writes a module and returns the command that runs it."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(code: str) -> list[str]:
        (tmp_path / "trainer.py").write_text(textwrap.dedent(code))
        return ["trainer"]

    return write


def test_a_process_answers_line_by_line(module):
    command = module("""
        import json
        for line in iter(input, None):
            num_steps, with_validation = json.loads(line)
            print(json.dumps({"outcome": "diverged", "num_steps": num_steps + with_validation}), flush=True)
    """)
    with worker(command) as train:
        assert [train(task).num_steps for task in (Task(100), Task(50, with_validation=True))] == [100, 51]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("import os; input(); os.kill(os.getpid(), 9)", "out_of_memory"),  # as the system ends it
        ("import time; input(); time.sleep(600)", "too_slow"),
    ],
)
def test_a_process_that_is_ended_has_an_outcome(module, code, outcome):
    with worker(module(code), max_seconds=0.5 if outcome == "too_slow" else 60) as train:
        assert train(Task(1)).outcome == outcome


@pytest.mark.parametrize("is_asked_late", [False, True])
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; print('chatter\\nerror: no such thing', file=sys.stderr); sys.exit(2)", "^no such thing$"),
        ("import os; os._exit(3)", "^trainer ended with status 3$"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "Segmentation fault"),
    ],
)
def test_a_process_that_fails_says_why(module, code, message, is_asked_late):
    """Also where it has ended before it is asked: what it never read does not hide that."""
    with pytest.raises(InputError, match=message), worker(module(code)) as train:  # noqa: PT012
        time.sleep(0.5 * is_asked_late)
        train(Task(1))
