"""A stage depends on exactly the code it uses: more would retrain for nothing, less would keep stale results."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, write_data
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo
from imported import closure, tree, with_code
from projects import PROFILE, dense_study, make_project

from pipeline.study.schema import Study
from stages.inputs import CODE, SETTINGS

STAGES = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())["stages"]


def dependencies(stage: dict) -> set[str]:
    """The files of code that a stage depends on: those it names, all in its rooms, and what `inputs` digests for it."""
    named = stage.get("do", stage)["deps"]
    digested = CODE if any(path.startswith("inputs/speed") for path in named) else ()
    return files_of([*digested, *(path for path in named if path.startswith(("pipeline", "stages")))])


def files_of(paths: Iterable[str]) -> set[str]:
    named = [REPOSITORY / path for path in paths]
    return with_code(
        file.relative_to(REPOSITORY) for path in named for file in (path.rglob("*.py") if path.is_dir() else [path])
    )


@pytest.mark.parametrize("name", sorted(STAGES.keys() - {"train"}))
def test_a_stage_depends_on_all_the_code_it_imports(name):
    code = closure(Path("stages", f"{name}.py"))
    assert not code - dependencies(STAGES[name]), "imported, and not among the deps in dvc.yaml"


@pytest.mark.parametrize("name", sorted(STAGES.keys() - {"train"}))
def test_no_stage_names_a_room_of_which_it_imports_nothing(name):
    scripts = {"inputs": ["train"]}.get(name, [])
    code = closure(*(Path("stages", f"{script}.py") for script in [name, *scripts]))
    named = [path for path in STAGES[name].get("do", STAGES[name])["deps"] if path.startswith(("pipeline", "stages"))]
    assert [path for path in named if not any(file == path or file.startswith(f"{path}/") for file in code)] == []


def test_what_retrains_is_what_a_training_run_imports():
    """In both directions: an edit of a judge, a figure or a page never trains anything."""
    assert files_of(CODE) == closure(Path("stages", "train.py")), "CODE of stages.inputs, then what is imported"
    assert files_of(CODE) <= dependencies(STAGES["inputs"])
    assert STAGES["train"]["deps"] == ["inputs/runs/${item.benchmark}/${item.variant}/seed-${item.seed}.json"]


def test_what_python_compiles_is_no_dependency():
    """Or a stage would run again because its code has been imported."""
    assert "__pycache__" in (REPOSITORY / ".dvcignore").read_text().splitlines()


def test_a_runs_file_has_all_that_training_reads_of_the_study():
    """Apart from what each run has for itself, and from a time limit, which no result depends on."""
    read = {
        node.attr
        for path in closure(Path("stages", "train.py"))
        for node in ast.walk(tree(Path(path)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "study"
    }
    assert (read & Study.model_fields.keys()) - {"benchmarks", "variants", "seeds", "max_run_seconds"} == SETTINGS
    assert "params.yaml" in STAGES["inputs"]["do"]["deps"]


@pytest.mark.parametrize("file", ["requirements/${runtime}.txt", "Dockerfile"])
def test_only_what_imports_the_engine_depends_on_its_packages_and_image(file):
    depending = {name for name, stage in STAGES.items() if file in stage.get("do", stage)["deps"]}
    assert depending == {"inputs", "numerics"}  # others depend on what `inputs` writes of them


def test_the_matrix_runs_the_seeds_outermost():
    assert list(STAGES["train"]["matrix"]) == ["seed", "benchmark", "variant"]


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # of pygtrie, which DVC uses
def test_dvc_finds_what_the_stages_name_in_a_study_without_any_optional_key(tmp_path, monkeypatch):
    study = Study.model_validate(dense_study(num_epochs=2) | PROFILE)
    make_project(tmp_path, study.model_dump(mode="json", exclude_defaults=True), PROFILE, without=("tests/", "docs/"))
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    with Repo() as repo:
        stages = repo.index.stages
        for dependency in (each for stage in stages for each in stage.deps if isinstance(each, ParamsDependency)):
            dependency.save()  # or there is a parameter that params.yaml has not
        repo.index.check_graph()
    assert {f"train@0-small_dense-{name}" for name in study.variants} <= {stage.addressing for stage in stages}
    command = [sys.executable, "-m", "dvc", "repro", "--single-item", "inputs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(Path("inputs/runs/small_dense/float32/seed-0.json").read_text())["study"]
    assert (said["compilation_cache"], said["tensorboard"]) == (False, False)
