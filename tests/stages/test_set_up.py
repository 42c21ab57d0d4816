"""Setting up .venv, with stand-ins for Python: which version is chosen, and the message if there is none."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import program, run

# A Python of a version that fits (or not) with venv (or not), whose pip brings a uv that notes what it is asked.
PYTHON = """
case "$*" in
  *version_info*) echo '{answer}' ;;
  "-m venv"*) [ {venv} = True ] || exit 1; mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
  "-m pip"*) cp made_up_uv "${{0%python}}uv" ;;
esac
"""
UV = """
echo "$*" >> log
case "$1" in
  venv) mkdir -p .venv/bin; cp python3 .venv/bin/python; cp made_up_uv .venv/bin/uv ;;
esac
"""
FILLED = "pip install --quiet --require-hashes --requirement requirements/uv.txt --python .venv"


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """A folder with all of PATH, where a Python can be put."""
    for tool in ("sh", "mktemp", "rm", "mkdir", "cp"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    program(tmp_path / "made_up_uv", UV)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def set_up(machine: Path) -> subprocess.CompletedProcess[str]:
    return run(machine, REPOSITORY / "stages" / "set_up.sh", "python3")


@pytest.mark.parametrize("answer", ["/usr/bin/python3", ">=3.11,<3.14"])
def test_set_up_uses_a_suitable_python_or_lets_uv_find_one_and_then_keeps_it(machine, answer):
    program(machine / "python3", PYTHON.format(answer=answer, venv=True))
    assert set_up(machine).returncode == 0
    assert set_up(machine).returncode == 0
    made = f"venv --quiet --clear --python {answer} .venv"
    assert (machine / "log").read_text().splitlines() == [made, FILLED, FILLED]


def test_a_python_without_venv_is_reported_with_the_package_to_install(machine):
    program(machine / "python3", PYTHON.format(answer="/usr/bin/python3", venv=False))
    done = set_up(machine)
    assert (done.returncode, "apt-get install python3-venv" in done.stderr) == (1, True)
    assert not (machine / ".venv").exists()
