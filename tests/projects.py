"""Copies of this project with a small study and fake data sets, for tests that run it as its users do."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from conftest import REPOSITORY, SPEED, benchmark

# For DVC in a copy of the project, whose stages import its own code.
USER_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONWARNINGS")
} | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
RUNNING = re.compile(r"^Running stage '([^']+)'", re.MULTILINE)  # as DVC says it
IDENTITY = {f"GIT_{role}_{what}": "t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
# For `make` and DVC in a project of `make_stub`, without what a `make test` above has set.
STUB_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))} | {
    "PATH": USER_ENVIRONMENT["PATH"],
    "PYTHONPATH": str(REPOSITORY),
    "CUDA_VISIBLE_DEVICES": "",
}
PROFILE = {"name": "quick", "description": "for tests", "seeds": [0]}


def dense_study(num_epochs: int) -> dict:
    """A dense model on MNIST in two precisions: what `params.yaml` says, but for its profile."""
    return {
        "campaign": "first",
        "compilation_cache": False,
        "datasets": {"mnist": {"tfds": "fashion_mnist"}},
        "benchmarks": {"small_dense": benchmark(units=8, image_size=28, num_epochs=num_epochs)},
        "variants": {
            "float32": {"policy": "float32", "batch_multiplier": 1},
            "mixed": {"policy": "mixed_bfloat16", "batch_multiplier": 1},
        },
        "comparison": {"baseline": "float32", "margin_pp": {"small_dense": 1.0}},
        "speed": SPEED,
    }


def make_project(folder: Path, study: dict, *profiles: dict, without: tuple[str, ...] = ()) -> None:
    """A git repository of this working tree, committed, whose study is this one with the first of these profiles."""
    copy_tree(folder, without=without)
    (folder / "conf" / "base.yaml").write_text(yaml.safe_dump(study))
    for profile in profiles:
        text = "# @package _global_\ndefaults: [/base@_global_, _self_]\n" + yaml.safe_dump(profile)
        (folder / "conf" / "profile" / f"{profile['name']}.yaml").write_text(text)
    (folder / "params.yaml").write_text(yaml.safe_dump(study | profiles[0]))
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder)


def copy_tree(folder: Path, *, without: tuple[str, ...] = ()) -> None:
    """This working tree but for dvc.lock, what git ignores, and what begins with one of `without`."""
    for name in git(REPOSITORY, "ls-files", "-co", "--exclude-standard").splitlines():
        if name != "dvc.lock" and not name.startswith(without) and (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | IDENTITY, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def edit_params(folder: Path, change: Callable[[dict], object]) -> None:
    values = yaml.safe_load((folder / "params.yaml").read_text())
    change(values)
    (folder / "params.yaml").write_text(yaml.safe_dump(values))


def run(folder: Path, *command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in this folder, and return its status and what it printed."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **options)


def stage(folder: Path, name: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a stage in this folder with no variables but these."""
    command = [sys.executable, "-m", f"stages.{name}", *words]
    environment = {"PATH": "", "HOME": str(folder)} | variables | {"PYTHONPATH": str(REPOSITORY)}
    return run(folder, *command, env=environment)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "state")


def make_stub(folder: Path, stages: dict) -> None:
    """A folder in which `make study` runs a real DVC on these stages, which are none of ours; no git, no engine."""
    for name in ("Makefile", "claims.yaml"):
        shutil.copy(REPOSITORY / name, folder)
    for name in ("requirements", "pipeline", "stages"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / ".venv").symlink_to(sys.prefix)  # or make would set one up to ask what trains
    (folder / "params.yaml").write_text(yaml.safe_dump(dense_study(num_epochs=2) | PROFILE))
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
    (folder / ".dvc").mkdir()
    (folder / ".dvc" / "config").write_text("[core]\n    no_scm = true\n    analytics = false\n")


def program(path: Path, script: str) -> None:
    """A program of the tests that stands in the place of a real one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def link_code(folder: Path) -> None:
    """Have in a study's folder the code that decides its runs."""
    for name in ("pipeline", "requirements", "stages"):
        (folder / name).symlink_to(REPOSITORY / name)
