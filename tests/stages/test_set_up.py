"""What makes .venv on machines whose Python is not one that the packages are for. The Pythons are made up."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import program

TOOLS = ("sh", "mktemp", "rm", "cat", "printf", "mkdir", "touch", "chmod", "cp")
# $1 is what it is asked: whether its version fits, whether it has venv, what it is called, or to make an environment.
PYTHON = """
case "$*" in
  *"import pip"*) exit 0 ;;
  *ensurepip*) exit {no_venv} ;;
  *%d.%d*) echo {minor} ;;
  *platform*) echo is Python {minor}.1 ;;
  *version_info*) exit {unfit} ;;
  "-m venv"*) for folder; do :; done; mkdir -p "$folder/bin"; cp "$0" "$folder/bin/python" ;;
  *"-m pip"*) echo "pip of {minor} for $0" >> "$LOG"
    case "$0" in *.venv/*) ;; *) cp "$(command -v made_up_uv)" "${{0%python}}uv" ;; esac ;;
  *) exit 9 ;;
esac
"""
UV = """
echo "uv $*" >> "$LOG"
case "$1" in
  venv) [ -e "$REACHABLE" ] || { echo "error: dns error" >&2; exit 2; }; mkdir -p .venv/bin ;;
esac
"""


@pytest.fixture
def machine(tmp_path) -> Path:
    """A folder with `bin`, all of PATH, where Pythons can be put."""
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    program(tmp_path / "bin" / "made_up_uv", UV)
    (tmp_path / "requirements").symlink_to(REPOSITORY / "requirements")
    return tmp_path


def python(machine: Path, name: str, minor: str, venv: bool = True) -> None:
    unfit = int(minor not in ("3.11", "3.12", "3.13"))
    program(machine / "bin" / name, PYTHON.format(minor=minor, unfit=unfit, no_venv=int(not venv)))


def set_up(machine: Path) -> tuple[int, str, str]:
    """The exit status, what was said, and what pip and uv were asked."""
    environment = {"PATH": str(machine / "bin"), "LOG": str(machine / "log"), "REACHABLE": str(machine / "reachable")}
    done = subprocess.run(
        [REPOSITORY / "stages" / "set_up.sh", "python3"],
        cwd=machine, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    log = machine / "log"
    return done.returncode, done.stdout, log.read_text() if log.exists() else ""


def test_a_python_that_fits_is_taken_without_a_word(machine):
    python(machine, "python3", "3.12")
    python(machine, "python3.13", "3.13")
    assert set_up(machine) == (0, "setting up .venv\n", "pip of 3.12 for .venv/bin/python\n")


@pytest.mark.parametrize("minor", ["3.14", "3.10"])
def test_another_python_on_the_path_is_looked_for(machine, minor):
    python(machine, "python3", minor)
    python(machine, "python3.12", "3.12")
    python(machine, "python3.13", "3.13", venv=False)
    status, said, log = set_up(machine)
    assert (status, log) == (0, "pip of 3.12 for .venv/bin/python\n")
    assert f"python3 is Python {minor}.1; the packages are for Python 3.11 to 3.13: taking python3.12" in said


@pytest.mark.parametrize("minor", ["3.14", "3.10"])
def test_where_there_is_none_uv_fetches_one(machine, minor):
    python(machine, "python3", minor)
    (machine / "reachable").touch()
    status, said, log = set_up(machine)
    assert status == 0
    assert (
        f"python3 is Python {minor}.1; the packages are for Python 3.11 to 3.13: uv looks for one, or else fetches"
        in said
    )
    of_pip, to_fetch, to_fill = log.splitlines()
    assert of_pip.startswith(f"pip of {minor} for /")  # uv, by hash, in a folder that goes
    assert to_fetch == "uv venv --quiet --clear --python >=3.11,<3.14 .venv"
    assert "--require-hashes --requirement requirements/uv.txt --python .venv" in to_fill


def test_a_uv_that_is_there_is_used(machine):
    program(machine / "bin" / "uv", UV)
    (machine / "reachable").touch()
    status, said, _ = set_up(machine)
    assert status == 0
    assert "python3 does not start" in said


@pytest.mark.parametrize(
    ("minor", "venv", "packages"),
    [
        ("3.14", True, ("python3-venv", "ppa:deadsnakes/ppa && sudo apt-get install python3.13-venv", "python3.13")),
        ("3.12", False, ("python3.12-venv", "apt-get install python3.12-venv", "python3.12")),  # Ubuntu's, say
        (None, False, ("python3-venv", "python3.13-venv", "python3.13")),
    ],
)
def test_where_nothing_works_the_packages_to_install_are_the_last_lines(machine, minor, venv, packages):
    if minor:
        python(machine, "python3", minor, venv)
    status, said, _ = set_up(machine)
    assert status == 1
    *_, debian, ubuntu, fedora = said.splitlines()
    for line, name, package in zip((debian, ubuntu, fedora), ("Debian", "Ubuntu", "Fedora"), packages, strict=True):
        assert line.startswith(f"  {name}: sudo ")
        assert line.endswith(package)
    assert not (machine / ".venv").exists()


def test_an_environment_that_is_there_is_kept(machine):
    python(machine, "python3", "3.12")
    set_up(machine)
    (machine / "log").unlink()
    (machine / ".venv" / "kept").touch()
    python(machine, "python3", "3.14")
    assert set_up(machine) == (0, "setting up .venv\n", "pip of 3.12 for .venv/bin/python\n")
    assert (machine / ".venv" / "kept").exists()
