"""The code and the packages that a record names."""

import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import commit, git, run

from pipeline.engine.loading import check_installed
from pipeline.machine.environment import environment_here


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A repository of code, in which this process works."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "loops.py").write_text("ONE = 1\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def state() -> tuple[str | None, list[str]]:
    found = environment_here([], {}, "")
    return found["git_commit"], found["git_changed"]


def test_uncommitted_code_is_listed(project):
    head = git(project, "rev-parse", "HEAD")
    assert state() == (head, [])
    (project / "params.yaml").write_text("name: mine\n")  # the study is in the archive
    (project / "pipeline" / "loops.py").write_text("ONE = 2\n")
    (project / "pipeline" / "more.py").touch()
    assert state() == (head, ["pipeline/loops.py", "pipeline/more.py"])


def test_the_commit_of_an_enclosing_repository_is_not_recorded(project, monkeypatch):
    (project / "unpacked" / "pipeline").mkdir(parents=True)
    monkeypatch.chdir(project / "unpacked")
    assert state() == (None, [])


def test_a_package_imported_from_outside_its_distribution_is_refused(tmp_path):
    check_installed("numpy", "keras", "nowhere")
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras" / "__init__.py").touch()
    paths = {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}
    told = run(REPOSITORY, sys.executable, "-c", "import pipeline.engine", env=paths).stderr
    assert f"Error: engine: keras is imported from {tmp_path / 'keras'}, which is not where it is" in told
