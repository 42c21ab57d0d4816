"""What a warm process makes of its children, with children that need no engine. tests/engines/test_warm.py has runs."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest
from conftest import REPOSITORY

from pipeline.machine.warm import Child, WarmProcesses, ask

SERVE = """
import signal, socket, sys
from pipeline.machine.warm import serve

def make(pipe):
    pipe.send(pipe.recv())
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
    pipe.send("listens")
    signal.pause()

serve(socket.socket(fileno=int(sys.argv[1])), make)
"""


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    monkeypatch.chdir(REPOSITORY)
    with WarmProcesses({"warm": [sys.executable, "-c", SERVE]}):
        child = ask("warm")
        with child.pipe, child.asked:
            child.pipe.send("a study")
            assert [child.pipe.recv() for _ in range(2)] == ["a study", "listens"]
            yield child


@pytest.mark.parametrize(("number", "status"), [(signal.SIGUSR1, 3), (signal.SIGKILL, -9), (signal.SIGTERM, -15)])
def test_a_child_has_the_signals_that_are_sent_it_and_its_own_status(child, number, status):
    child.send(number)
    assert os.waitstatus_to_exitcode(child.wait()) == status
    child.send(number)  # which nobody has now


def test_the_next_is_forked_where_whoever_asked_for_the_first_has_ended(child):
    child.asked.close()
    another = ask("warm")
    assert another.pid != child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
    with another.pipe, another.asked:
        another.send(signal.SIGKILL)
        assert another.wait() == signal.SIGKILL


def test_none_answers_where_none_is_offered_or_its_path_is_too_long(monkeypatch, tmp_path):
    assert ask("warm") is None
    (tmp_path / ("long" * 30)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 30)))
    with WarmProcesses({"warm": [sys.executable, "-c", SERVE]}):
        assert ask("warm") is None
    assert not list((tmp_path / ("long" * 30)).iterdir())
