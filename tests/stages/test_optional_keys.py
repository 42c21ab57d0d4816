"""A study that is accepted runs: DVC finds what the stages name, whichever optional key is left out."""

import contextlib
import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import write_data
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo
from projects import PROFILE, dense_study, make_project

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.study.configuration import validate
from pipeline.study.schema import Study

# With every optional key: what is not said here is written out.
FULL = Study.model_validate(dense_study(num_epochs=2) | PROFILE | {"deviations": {"small_dense": ["smaller"]}})
VALUES = FULL.model_dump(mode="json")


def paths(values: dict, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


def without(*path: str) -> dict:
    values = copy.deepcopy(VALUES)
    around = values
    for key in path[:-1]:
        around = around[key]
    del around[path[-1]]
    return values


def is_accepted(values: dict) -> bool:
    with contextlib.suppress(InputError):
        validate(Study, values, "params.yaml")
        return True
    return False


OPTIONAL = [path for path in paths(VALUES) if path[:2] != ("variants", "mixed") and is_accepted(without(*path))]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    make_project(folder, dense_study(num_epochs=2), PROFILE, without=("tests/", "docs/"))
    return folder


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # of pygtrie, which DVC uses
@pytest.mark.parametrize("path", OPTIONAL, ids=".".join)
def test_dvc_resolves_a_study_without_it(project, monkeypatch, path):
    monkeypatch.chdir(project)
    Path("params.yaml").write_text(yaml_files.dump(without(*path)))
    with Repo() as repo:
        stages = repo.index.stages
        for stage in stages:
            for dependency in stage.deps:
                if isinstance(dependency, ParamsDependency):
                    dependency.save()  # or there is a parameter that params.yaml has not
        repo.index.check_graph()
    assert {f"train@0-small_dense-{name}" for name in FULL.variants} <= {stage.addressing for stage in stages}


def test_a_study_without_any_optional_key_gets_its_first_files(project):
    values = VALUES
    for path in sorted(OPTIONAL, key=len):
        values = {key: value for key, value in values.items() if (key,) != path}
    for name in ("float32", "mixed"):
        values["variants"][name] = {key: VALUES["variants"][name][key] for key in ("policy", "batch_multiplier")}
    (project / "params.yaml").write_text(yaml_files.dump(values))
    write_data(project)
    command = [sys.executable, "-m", "dvc", "repro", "--single-item", "inputs"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads((project / "inputs/runs/small_dense/float32/seed-0.json").read_text())["study"]
    assert (said["compilation_cache"], said["tensorboard"]) == (False, False)
