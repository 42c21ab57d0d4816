"""A stage depends on exactly the code it uses: more would retrain for nothing, less would keep stale results."""

import ast
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY

from pipeline.study import Study
from stages.code import SETTINGS

STAGES = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())["stages"]


def imported(path: Path) -> set[Path]:
    """The project's own files that `path` imports, at any depth of nesting."""
    names = set()
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    candidates = {Path(*name.split(".")) for name in names}
    files = {c.with_suffix(".py") for c in candidates} | {c / "__init__.py" for c in candidates}
    return {file for file in files if (REPOSITORY / file).is_file()}


def closure(path: Path) -> set[str]:
    found, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imported(file)
    return {str(file) for file in found if (REPOSITORY / file).stat().st_size}


def dependencies(stage: dict) -> set[str]:
    return {path for path in stage.get("do", stage)["deps"] if path.endswith(".py") and "${" not in path}


@pytest.mark.parametrize("name", sorted(STAGES.keys() - {"code", "train"}))
def test_the_code_of_a_stage_is_what_it_imports(name):
    code = closure(Path("stages", f"{name}.py"))
    assert dependencies(STAGES[name]) == code, "the deps in dvc.yaml, then what is imported"


def test_a_run_depends_on_the_code_of_training_by_its_digests():
    code = closure(Path("stages", "train.py")) | closure(Path("stages", "code.py"))
    assert dependencies(STAGES["code"]) == code, "the deps in dvc.yaml, then what is imported"
    assert STAGES["train"]["deps"] == [
        "inputs/benchmarks/${item.benchmark}.json",
        "inputs/code.json",
        "inputs/variants/${item.variant}.json",
    ]


def test_what_the_study_says_of_every_run_is_all_that_it_says_of_no_part():
    """A field of the study that decides a run must be known to the stages on whose files runs depend."""
    of_parts = {"benchmarks", "datasets", "seeds", "variants"}
    of_words_and_comparison = {"comparison", "deviations", "description", "profile"}
    assert set(STAGES["code"]["params"]) == SETTINGS == Study.model_fields.keys() - of_parts - of_words_and_comparison
    assert {"benchmarks.${key}", "datasets.${item.dataset}"} <= set(STAGES["inputs"]["do"]["params"])
    assert STAGES["variants"]["params"] == ["variants"]


@pytest.mark.parametrize("file", ["requirements/${runtime}.txt", "Dockerfile"])
def test_only_what_imports_the_engine_depends_on_its_packages_and_image(file):
    depending = {name for name, stage in STAGES.items() if file in stage.get("do", stage)["deps"]}
    assert depending == {"code", "numerics", "ceilings"}


def test_every_model_has_been_built_before_any_run_trains():
    """A run waits for its variant's file, and that one for all benchmarks, whose models are built on the way."""
    assert "inputs/benchmarks" in STAGES["variants"]["deps"]
    assert "pipeline/fitting.py" in STAGES["inputs"]["do"]["deps"]
    assert {"engine", "variants"} <= set(STAGES["inputs"]["do"]["params"])


def test_the_matrix_runs_the_seeds_outermost():
    assert list(STAGES["train"]["matrix"]) == ["seed", "benchmark", "variant"]
