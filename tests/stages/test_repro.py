"""`make repro` when DVC or a stage fails or is ended: the remedy, the exit status, and nothing left running."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from endings import SECONDS, gone, start, wait_for
from projects import STUB_ENVIRONMENT, make_stub, run

import stages.repro

REPRO = [sys.executable, "-m", "stages.repro"]


def repro(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    make_stub(folder, {"train": {"cmd": command, "outs": ["made"]}})
    return run(folder, *REPRO, env=STUB_ENVIRONMENT)


@pytest.mark.parametrize(
    ("words", "status", "remedy"),
    [
        ("exited with 2", 2, "Fix what the message above names"),
        ("exited with 143", 143, "goes on after the last whole epoch"),
    ],
)
def test_a_failed_stage_is_reported_with_its_exit_status_and_remedy(words, status, remedy):
    assert stages.repro.exit_status(words) == status
    assert remedy in stages.repro.remedy(words)


def test_a_stage_that_is_killed_under_dvc_is_reported(tmp_path):
    done = repro(tmp_path, "exec sh -c 'kill -KILL $$'")
    assert done.returncode == 137, done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("what to do: A stage was killed, probably because memory ran out")


def test_an_unreadable_lock_file_is_reported_with_its_remedy(tmp_path):
    make_stub(tmp_path, {"train": {"cmd": "touch made", "outs": ["made"]}})
    (tmp_path / "dvc.lock").write_text("<<<<<<< HEAD\n")
    done = run(tmp_path, *REPRO, env=STUB_ENVIRONMENT)
    assert done.returncode == 1
    assert "what to do: Remove dvc.lock: finished runs are found in .cache/" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_no_process_is_left_running_when_repro_is_ended(tmp_path, how):
    code = "from pipeline.machine.processes import end_with_starter; import pathlib, signal, time; "
    code += "end_with_starter(signal.SIGTERM); pathlib.Path('runs').touch(); time.sleep(600)"
    make_stub(tmp_path, {"train": {"cmd": f'exec python -c "{code}"', "outs": ["made"]}})
    with start(tmp_path, STUB_ENVIRONMENT, *REPRO) as process:
        wait_for((tmp_path / "runs").exists, 60, process)
        others = process.children(recursive=True)
        process.send_signal(how)
        wait_for(lambda: process.poll() is not None and all(map(gone, others)), 3 * SECONDS)
    assert process.returncode == (-how if how == signal.SIGKILL else 128 + how)
