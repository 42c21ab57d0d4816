"""The whole pipeline under DVC, as a user runs it: a small study of MNIST, every stage once."""

import contextlib
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import REPOSITORY
from projects import PROFILE, RUNNING, USER_ENVIRONMENT, commit, dense_study, git, make_project, run

STUDY = dense_study(num_epochs=2) | {"datasets": {"mnist": {"bundled": "mnist"}}}
STUDY["benchmarks"]["small_dense"]["evaluation_batch_size"] = 1000


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A clone of the project with a small study that has been run once."""
    folder = tmp_path_factory.mktemp("clone") / "project"
    make_project(folder, STUDY, PROFILE | {"numerics": "facts", "runs_at_once": {"small_dense": 2}}, without=("docs/",))
    opened = folder.parent / "opened"  # where stages write down which files they open
    opened.mkdir()
    done = dvc(folder, "repro", PYTHONPATH=str(REPOSITORY / "tests" / "opened"), OPENED_FOLDER=str(opened))
    assert len(RUNNING.findall(done)) == 7, done
    commit(folder)
    return folder


@pytest.fixture
def clone(finished) -> Path:
    """The finished project, put back as it was after the test."""
    yield finished
    git(finished, "checkout", "--quiet", "--", ".")
    git(finished, "clean", "--quiet", "-fd")


def dvc(folder: Path, *arguments: str, **variables: str) -> str:
    command, environment = [sys.executable, "-m", "dvc", *arguments], USER_ENVIRONMENT | variables
    done = run(folder, *command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_repro_makes_every_run_and_the_report(finished):
    records = sorted(str(path.relative_to(finished)) for path in finished.glob("runs/*/*/*/record.json"))
    assert records == [
        "runs/small_dense/float32/seed-0/record.json",
        "runs/small_dense/mixed/seed-0/record.json",
    ]
    record, _ = made = [json.loads((finished / path).read_text()) for path in records]
    lived = [(datetime.fromisoformat(of["started_at"]).timestamp(), of["times"]["run_seconds"]) for of in made]
    # Side by side; the start is cut to whole seconds.
    assert max(start for start, _ in lived) < min(start + 1 + seconds for start, seconds in lived)
    assert record["environment"]["lock_sha256"]
    assert record["environment"]["git_commit"]
    assert (finished / "results" / "report.html").stat().st_size > 10_000
    assert not list(finished.glob("**/*.partial"))


def test_a_second_repro_runs_nothing(clone):
    assert not RUNNING.findall(dvc(clone, "repro"))


def test_dvc_shows_speedups_and_plots(clone):
    metrics = json.loads(dvc(clone, "metrics", "show", "--json"))
    assert metrics[""]["data"]["results/speedup.json"]["data"]["small_dense"] > 0
    assert max(map(len, dvc(clone, "metrics", "show").splitlines())) <= 80
    plots = dvc(clone, "plots", "show", "--json")
    assert "validation_accuracy" in plots
    assert '"x2": {"field": "difference_high_pp"}' in plots


class Stage(NamedTuple):
    """A stage as DVC resolves it: the files or folders it depends on and writes, relative to the project."""

    command: str
    dependencies: set[str]
    outputs: set[str]


@pytest.fixture(scope="module")
def stages(finished) -> list[Stage]:
    from dvc.repo import Repo

    def paths(found) -> set[str]:
        return {os.path.relpath(one.fs_path, finished) for one in found}

    with contextlib.chdir(finished), Repo() as repo:
        return [Stage(stage.cmd, paths(stage.deps), paths(stage.outs)) for stage in repo.index.stages]


@pytest.fixture(scope="module")
def opened(finished) -> dict[str, set[str]]:
    """Stage's command → the files of the project that it opened to read, but for those it threw away and its code.

    A checkpoint knows the whole library by its digest.
    """
    found: dict[str, set[str]] = {}
    for lines in (finished.parent / "opened").iterdir():
        for line in lines.read_text().splitlines():
            command, path = line.split("\t")
            file = Path(path)
            is_code = file.suffix in (".py", ".pyc") or file.is_relative_to(finished / "pipeline")
            if file.is_relative_to(finished) and not is_code and file.is_file():
                found.setdefault(command, set()).add(str(file.relative_to(finished)))
    return found


def inside(path: str, folders: set[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def test_a_stage_depends_on_every_file_it_opens(stages, opened):
    """With fewer dependencies, stale results would stay. The store and .venv are not part of the project."""
    missing = {
        stage.command: {
            file for file in opened[stage.command] if not inside(file, stage.dependencies | stage.outputs | {".cache"})
        }
        for stage in stages
    }
    assert not {command: files for command, files in missing.items() if files}


def test_a_stage_opens_every_file_it_depends_on(finished, stages, opened):
    """With more dependencies, stages would rerun for nothing. Code, packages and bundled data have their own tests."""
    elsewhere = {"params.yaml", "requirements"}
    tracked = git(finished, "ls-files").splitlines()
    unopened = {
        (stage.command, file)
        for stage in stages
        for path in stage.dependencies
        if not inside(path, elsewhere) and not path.endswith(".py")
        for file in [file for file in tracked if inside(file, {path}) and not file.endswith(".py")] or [path]
        if not inside(path, {"pipeline"})  # rooms, which have more than one stage imports
        if not any(inside(one, {file}) for one in opened[stage.command])
    }
    assert not unopened
