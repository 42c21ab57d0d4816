"""A stage depends on exactly the code it uses: more would retrain for nothing, less would keep stale results."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY
from imported import closure, tree, with_code

from pipeline.study.schema import Study
from stages.inputs import CODE, SETTINGS

STAGES = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())["stages"]


def dependencies(stage: dict) -> set[str]:
    """The files of code that a stage depends on: those it names, and all in the rooms it names."""
    return files_of(path for path in stage.get("do", stage)["deps"] if path.startswith(("pipeline", "stages")))


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
    scripts = {"inputs": ["train"], "ceilings": ["try_batch"], "speed": ["train_blocks"]}.get(name, [])
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
    assert STAGES["inputs"]["do"]["params"] == [{"params.yaml": None}]


@pytest.mark.parametrize("file", ["requirements/${runtime}.txt", "Dockerfile"])
def test_only_what_imports_the_engine_depends_on_its_packages_and_image(file):
    depending = {name for name, stage in STAGES.items() if file in stage.get("do", stage)["deps"]}
    assert depending == {"inputs", "numerics", "ceilings", "profile"}


def test_the_matrix_runs_the_seeds_outermost():
    assert list(STAGES["train"]["matrix"]) == ["seed", "benchmark", "variant"]
