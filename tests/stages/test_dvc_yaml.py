"""A stage depends on the code that it imports: less would keep stale results, more would run it for nothing."""

import ast
import contextlib
from functools import cache
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, write_data
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo
from projects import PROFILE, dense_study, make_project

from pipeline.files.code import with_imports
from pipeline.study.schema import Study

STAGES = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())["stages"]


@cache
def imported(stage: str) -> set[str]:
    """The files of code that a stage's command imports, without those that hold a docstring alone."""
    with contextlib.chdir(REPOSITORY):
        files = with_imports(Path("stages", f"{stage}.py"))
        return {str(file) for file in files if len(ast.parse(file.read_text()).body) > 1}


def named(stage: str) -> list[str]:
    return [path for path in STAGES[stage].get("do", STAGES[stage])["deps"] if path.startswith(("pipeline", "stages"))]


def holds(path: str, file: str) -> bool:
    return file == path or file.startswith(f"{path}/")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_all_the_code_it_imports(stage):
    assert [file for file in sorted(imported(stage)) if not any(holds(path, file) for path in named(stage))] == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_only_on_folders_it_imports_from(stage):
    assert [path for path in named(stage) if not any(holds(path, file) for file in imported(stage))] == []


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # of pygtrie, which DVC uses
def test_dvc_finds_every_parameter_in_a_study_without_optional_keys(tmp_path, monkeypatch):
    study = Study.model_validate(dense_study(num_epochs=2) | PROFILE)
    make_project(tmp_path, study.model_dump(mode="json", exclude_defaults=True), PROFILE, without=("tests/", "docs/"))
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    with Repo() as repo:
        stages = repo.index.stages
        for dependency in (each for stage in stages for each in stage.deps if isinstance(each, ParamsDependency)):
            dependency.save()  # or there is a parameter that params.yaml has not
        repo.index.check_graph()
    assert {"train@small_dense", "speed@small_dense"} <= {stage.addressing for stage in stages}
