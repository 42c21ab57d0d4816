"""What Slurm says of the tasks of a job step."""

import pytest

from pipeline.engine import processes
from pipeline.errors import InputError


@pytest.mark.parametrize(
    ("nodes", "counts", "hosts"),
    [
        ("node7", "2", ["node7", "node7"]),
        ("a,b", "2,1", ["a", "a", "b"]),
        ("n[1-3]", "1(x3)", ["n1", "n2", "n3"]),
        ("n[9-11]", "1(x3)", ["n9", "n10", "n11"]),
        ("gpu-a[007-008,011],login", "2(x2),1(x2)", [*["gpu-a007"] * 2, *["gpu-a008"] * 2, "gpu-a011", "login"]),
    ],
)
def test_every_task_has_its_node(monkeypatch, nodes, counts, hosts):
    monkeypatch.setenv("SLURM_STEP_NODELIST", nodes)
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", counts)
    assert processes.slurm_hosts() == hosts


def test_who_waits_for_whom_is_said(capsys):
    processes.expect(["localhost:1", "127.0.0.1:2"], 2, 3)
    assert capsys.readouterr().err == "process 2 of 3 waits for localhost:1, 127.0.0.1:2, at most 120 s\n"


def test_a_name_without_an_address_is_an_error():
    with pytest.raises(InputError, match=r"process 1 of 2 is to find another on 'nowhere\.invalid'"):
        processes.expect(["nowhere.invalid:1"], 1, 2)
