"""A parent that forks children: each answers or reports how it ended, and none outlives the one that started it."""

import os
import signal
import sys
import time

import psutil
import pytest
from conftest import REPOSITORY
from endings import SECONDS, gone, start, wait_for

from pipeline.errors import InputError
from pipeline.machine.processes import Ended, Parent, call, limit_seconds, shares


def prepare(how=""):
    match how:
        case "torn":
            raise OSError("no such library")
        case "missing":
            raise InputError("no such engine")


def work(pipe, how=""):
    """Answer with this process's number, then end as is asked for."""
    match how:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)  # as the system ends it
        case "slow":
            limit_seconds(0.3)
            time.sleep(600)
        case "endless":
            pipe.send(os.getpid())
            time.sleep(600)
        case "faulty":
            raise InputError("no such thing")
    pipe.send(os.getpid())


def messages(line, how=""):
    line.start(work, how)
    return list(line.messages())


def test_each_child_is_a_separate_process_and_reports_its_end_last():
    with Parent(1, prepare) as parent:
        found = [messages(parent.lines[0]) for _ in range(2)]
    assert [said[1] for said in found] == [Ended(0)] * 2
    assert len({said[0] for said in found} | {os.getpid()}) == 3


@pytest.mark.parametrize(("how", "status"), [("killed", -signal.SIGKILL), ("slow", -signal.SIGALRM)])
def test_a_failing_child_does_not_affect_the_others(how, status):
    with Parent(2, prepare) as parent:
        bad, good = parent.lines
        assert messages(bad, how) == [Ended(status)]
        assert messages(good)[1] == messages(bad)[1] == Ended(0)


def test_children_run_side_by_side_and_none_is_left_at_the_end():
    with Parent(2, prepare) as parent:
        for line in parent.lines:
            line.start(work, "endless")
        children = [psutil.Process(line.receive()) for line in parent.lines]
        assert {child.ppid() for child in children} == {parent.pid}
    wait_for(lambda: all(map(gone, children)), SECONDS)


@pytest.mark.parametrize(("how", "words"), [("missing", "no such engine"), ("faulty", "no such thing")])
def test_an_input_error_in_another_process_is_raised_in_the_caller(how, words):
    with Parent(1, prepare, how) as parent, pytest.raises(InputError, match=words):
        messages(parent.lines[0], how)


def test_a_parent_that_fails_to_prepare_reports_its_end(capfd):
    with Parent(1, prepare, "torn") as parent:
        assert messages(parent.lines[0]) == [Ended(1)]
    assert "OSError: no such library" in capfd.readouterr().err


def test_a_call_in_another_process_returns_its_result_or_reports_its_failure(tmp_path):
    assert call(os.getpid) != os.getpid()
    with pytest.raises(InputError, match="remove ended with status 1"):
        call(os.remove, tmp_path / "nothing")


STARTS = """
import time
from pipeline.machine.processes import Parent
from tests_of_processes import prepare, work
if __name__ == "__main__":
    with Parent(2, prepare) as parent:
        for line in parent.lines:
            line.start(work, "endless")
            line.receive()
        print("they work", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_processes_end_with_the_one_that_started_them(tmp_path, how):
    (tmp_path / "starts.py").write_text(STARTS)
    (tmp_path / "tests_of_processes.py").symlink_to(__file__)
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"}
    with start(tmp_path, environment, sys.executable, "starts.py") as starting:
        assert starting.stdout.readline() == "they work\n"
        others = starting.children(recursive=True)
        assert len(others) >= 3
        starting.send_signal(how) if how == signal.SIGKILL else os.killpg(starting.pid, how)  # as Ctrl-C does
        starting.stdout.read()  # until all have closed it
        wait_for(lambda: all(map(gone, others)), SECONDS)


def test_a_parent_outlives_its_children_and_reports_its_own_end():
    with Parent(1, prepare) as parent:
        messages(parent.lines[0])
        parent.lines[0].end()  # there is none
        assert not parent.has_ended
        os.kill(parent.pid, signal.SIGKILL)
        assert messages(parent.lines[0]) == [Ended(-signal.SIGKILL)]
        assert parent.has_ended


@pytest.mark.parametrize(
    ("cores", "num_shares", "expected"),
    [
        ([0, 1], 1, [[0, 1]]),
        ([0, 1], 2, [[0], [1]]),
        ([2, 3, 6, 7, 8], 2, [[2, 6, 8], [3, 7]]),
        ([0, 1], 3, [[0, 1]] * 3),
    ],
)
def test_processes_side_by_side_share_the_cores(cores, num_shares, expected):
    assert shares(cores, num_shares) == expected
