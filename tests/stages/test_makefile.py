"""The packages that `make` installs and the study that it runs, by its variables."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import program, run

# Without what a `make test` above has set.
MAKE_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "ENGINE", "PROFILE", "TARGET", "BIN", "LD_LIBRARY_PATH")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in MAKE_VARIABLES}
ENVIRONMENT["CUDA_VISIBLE_DEVICES"] = ""  # on whatever machine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the Makefile reads."""
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    shutil.copytree(REPOSITORY / "requirements", tmp_path / "requirements")
    for name in ("pipeline", "stages"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    program(tmp_path / ".venv" / "bin" / "python", f'exec {sys.executable} "$@"')
    (tmp_path / ".venv" / "parser").touch()
    return tmp_path


def planned(folder: Path, *arguments: str) -> str:
    """Return the commands that `make` would run."""
    return make(folder, "-n", *arguments)


def make(folder: Path, *arguments: str, **variables: str) -> str:
    path = f"{folder / 'path'}{os.pathsep}{ENVIRONMENT['PATH']}"
    environment = ENVIRONMENT | {"PATH": path} | variables
    done = run(folder, "make", *arguments, env=environment)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "commands", "lock"),
    [
        ("", ["repro --for-this-machine"], "cpu"),
        ("PROFILE=paper SMALL=1", ["compose profile='paper' --small", "repro"], "cpu"),
        ("ENGINE=cuda-jax PROFILE=paper", ["compose profile='paper'", "repro"], "cuda-jax"),
    ],
)
def test_make_repro_composes_the_requested_study_and_installs_its_packages(folder, arguments, commands, lock):
    lines = planned(folder, "repro", *arguments.split()).splitlines()
    assert [" ".join(line.split()) for line in lines if "stages." in line and "engine" not in line] == [
        f"python -m stages.{command}" for command in commands
    ]
    assert f"requirements/{lock}.txt requirements/workflow.txt" in "\n".join(lines)


def test_a_fresh_machine_gets_the_parser_before_its_hardware_is_detected(folder):
    """On a machine whose Pythons can install nothing, make tries the parser first and guesses no engine."""
    shutil.rmtree(folder / ".venv")
    for name in ("python3", "uv"):
        program(folder / "path" / name, "exit 3")
    said = make(folder, "repro")
    assert "what to do: " in said
    assert "requirements/cpu.txt" not in said
    assert "make: ***" in said


def test_make_test_installs_what_tests_need_and_nothing_twice(folder):
    program(folder / ".venv" / "bin" / "uv", 'echo "$*" >> installed')
    log = folder / "installed"
    make(folder, ".venv/ready")  # which `make repro` makes
    assert "development.txt" not in log.read_text()
    make(folder, ".venv/development")  # which `make test` and `make lint` make
    *_, last = log.read_text().splitlines()
    assert last.startswith("pip install")
    assert last.endswith("-r requirements/development.txt")
    log.unlink()
    for target in (".venv/ready", ".venv/development", ".venv/ready"):
        make(folder, target)
    assert not log.exists()
    assert "uv pip" not in planned(folder, "repro") + planned(folder, "test") + planned(folder, "lint")
    assert "uv pip sync" in planned(folder, ".venv/ready", "ENGINE=tpu")  # the packages of another one


def test_make_says_what_to_do_if_packages_cannot_be_installed(folder):
    program(folder / ".venv" / "bin" / "uv", "exit 2")
    for target in ("repro", "lint"):
        *_, remedy = (line for line in make(folder, target).splitlines() if not line.startswith("make: ***"))
        assert remedy.startswith("what to do: read the message above. If it is about the network, connect this machine")
    assert not (folder / ".venv" / "ready").exists()


def test_make_says_which_hardware_it_found_unless_an_engine_is_named(folder):
    program(folder / ".venv" / "bin" / "python", "echo cuda \"found it, '#1' of \\$2 ($*): why\"")
    told = "found it, '#1' of $2 (-m stages.engine): why"
    assert told in planned(folder, "repro").splitlines()
    assert told not in planned(folder, "repro", "ENGINE=cpu").splitlines()


@pytest.mark.parametrize("target", ["repro", "advise"])
def test_make_installs_the_detected_engine_and_tells_stages_the_installed_one(folder, target):
    program(folder / ".venv" / "bin" / "python", "echo cuda")
    (folder / ".venv" / "ready").write_text("cpu\n")
    assert "requirements/cuda.txt" in planned(folder, target)
    assert "requirements/cuda.txt" not in planned(folder, target, "ENGINE=cpu")
    with (folder / "Makefile").open("a") as makefile:
        makefile.write("told:\n\t@echo the engine is $$ENGINE\n")
    assert "the engine is cpu" in make(folder, "told")


def test_the_loader_finds_the_cuda_libraries_of_the_environment(folder):
    libraries = [folder / ".venv/lib/python3.11/site-packages/nvidia" / name / "lib" for name in ("cublas", "cudnn")]
    for library in libraries:
        library.mkdir(parents=True)
    with (folder / "Makefile").open("a") as file:
        file.write("show:\n\t@echo $$LD_LIBRARY_PATH\n")
    assert make(folder, "show", "ENGINE=cuda").strip() == ":".join(map(str, libraries))


def test_a_misspelt_variable_is_refused(folder):
    assert "there is no variable BATCHSIZE, only ARGUMENTS BASELINE" in make(folder, "advise", "BATCHSIZE=32")


def test_an_unknown_engine_is_refused(folder):
    assert "ENGINE is one of cpu cuda cuda-jax tpu, not 'gpu'" in make(folder, "study", "ENGINE=gpu")


def test_the_documented_crontab_line_starts_a_campaign_in_an_almost_empty_environment(folder):
    page = (REPOSITORY / "docs" / "on-your-cluster.md").read_text()
    (line,) = re.findall(r"^    0 3 1 \* \* (cd /path/to/checkout && .*)$", page, re.MULTILINE)
    (folder / ".venv" / "ready").write_text("cpu\n")
    os.utime(folder / ".venv" / "ready", (2**31, 2**31))
    program(folder / ".venv" / "bin" / "python", 'echo "$PWD: $*"')
    command = ("sh", "-c", line.replace("/path/to/checkout", str(folder)))
    printed = run(folder.parent, *command, env={"PATH": ENVIRONMENT["PATH"]}).stdout
    assert printed == f"{folder}: -m stages.campaign --cluster=my-cluster.yaml\n"


TYPED = ["x'; touch made; '", "`touch made`", "$(shell touch made)", "#& |*?<>\\"]


@pytest.mark.parametrize("text", TYPED)
@pytest.mark.parametrize(
    ("target", "variable", "option"),
    [("judge", "TABLE", ""), ("advise", "ARGUMENTS", "--arguments="), ("study", "PROFILE", "profile=")],
)
def test_make_variables_arrive_unchanged_and_are_not_run_by_the_shell(folder, text, target, variable, option):
    (folder / ".venv" / "ready").write_text("cpu\n")
    os.utime(folder / ".venv" / "ready", (2**31, 2**31))
    told = folder / "told"
    program(folder / ".venv" / "bin" / "python", f'printf "%s\\0" "$@" >> "{told}"')
    make(folder, target, "ENGINE=cpu", f"{variable}={text}")
    assert f"{option}{text}" in told.read_bytes().decode().split("\0")
    assert not (folder / "made").exists()
