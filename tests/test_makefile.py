"""Which packages train and which study runs, as `make` is asked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY

# Without what a `make test` above has set.
MAKE_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "ENGINE", "PROFILE", "TARGET", "BIN", "LD_LIBRARY_PATH")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in MAKE_VARIABLES}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the Makefile reads of a project whose study is that of a CPU."""
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    profiles = tmp_path / "conf" / "profile"
    profiles.mkdir(parents=True)
    (tmp_path / "conf" / "base.yaml").write_text("runtime: cpu\n")
    (tmp_path / "params.yaml").write_text("runtime: cpu\n")
    (profiles / "paper.yaml").write_text("profile: paper\n")
    (profiles / "tpu.yaml").write_text("engine: jax\nruntime: tpu\n")
    shutil.copytree(REPOSITORY / "requirements", tmp_path / "requirements")
    return tmp_path


def planned(folder: Path, *arguments: str) -> str:
    """What `make` would run."""
    return make(folder, "-n", *arguments)


def make(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["make", *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ([], None),
        (["ENGINE=cpu"], None),
        (["PROFILE=paper"], "python -m stages.compose profile=paper"),
        (["ENGINE=cuda"], "python -m stages.compose runtime=cuda engine=tensorflow"),
        (
            ["ENGINE=cuda", "PROFILE=paper"],
            "python -m stages.compose profile=paper runtime=cuda engine=tensorflow",
        ),
        (["ENGINE=tpu"], "python -m stages.compose profile=tpu runtime=tpu engine=jax"),
        (["PROFILE=tpu"], "python -m stages.compose profile=tpu"),
    ],
)
def test_the_study_is_composed_anew_where_another_is_asked_for(folder, arguments, command):
    lines = planned(folder, "study", *arguments).splitlines()
    assert [line for line in lines if "compose" in line] == ([command] if command else [])
    assert lines[-3:] == ["python -m stages.check", "dvc repro --quiet", "python -m stages.summary"]


@pytest.mark.parametrize(
    ("arguments", "lock"),
    [
        ([], "cpu"),
        (["ENGINE=cuda"], "cuda"),
        (["ENGINE=tpu"], "tpu"),
        (["PROFILE=tpu"], "tpu"),
        (["PROFILE=paper"], "cpu"),
    ],
)
def test_the_packages_are_those_of_what_trains(folder, arguments, lock):
    assert f"requirements/{lock}.txt requirements/workflow.txt" in planned(folder, "repro", *arguments)


def test_a_study_that_says_what_trains_it_runs_as_it_is(folder):
    (folder / "params.yaml").write_text("engine: tensorflow\nruntime: cuda\n")
    assert "requirements/cuda.txt" in planned(folder, "repro")
    assert "dvc repro --quiet" in planned(folder, "study", "ENGINE=cuda").splitlines()


def test_packages_are_exchanged_only_for_another_engine(folder):
    (folder / ".venv").mkdir()
    (folder / ".venv" / "ready").write_text("cpu\n")
    assert "uv pip sync" not in planned(folder, ".venv/ready")
    assert "uv pip sync" in planned(folder, ".venv/ready", "ENGINE=tpu")


def test_the_loader_finds_the_cuda_libraries_of_the_environment(folder):
    libraries = [folder / ".venv/lib/python3.11/site-packages/nvidia" / name / "lib" for name in ("cublas", "cudnn")]
    for library in libraries:
        library.mkdir(parents=True)
    with (folder / "Makefile").open("a") as file:
        file.write("show:\n\t@echo $$LD_LIBRARY_PATH\n")
    assert make(folder, "show", "ENGINE=cuda").strip() == ":".join(map(str, libraries))


def test_advice_is_asked_for_in_variables(folder):
    line = planned(folder, "advise", "MODEL=mine:build", "DATASET=mnist", "BATCH=64", 'ARGUMENTS={"units": 8}')
    words = line.replace("\\\n", " ").splitlines()[-1].split()
    assert " ".join(words).endswith(
        """stages.advise --model 'mine:build' --dataset 'mnist' --batch 64 --arguments '{"units": 8}'"""
    )


def test_another_engine_is_refused(folder):
    assert "ENGINE is cpu, cuda or tpu, not 'gpu'" in planned(folder, "study", "ENGINE=gpu")
