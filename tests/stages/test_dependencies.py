"""What each run depends on: no less than what decides it, and nothing that does not."""

import json
import shutil
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from conftest import REPOSITORY, write_arrays

from pipeline.files import yaml_files
from pipeline.study.schema import load_study
from stages import inputs

VALUES = yaml_files.load(REPOSITORY / "params.yaml")


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """A function that changes the study and returns the runs whose files are not what they were."""
    shutil.copyfile(REPOSITORY / "Dockerfile", tmp_path / "Dockerfile")
    for name in ("pipeline", "stages", "requirements"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in VALUES["datasets"]:
        arrays = {f"{part}_images": np.zeros((1, 1, 1, 1), np.uint8) for part in ("train", "test")}
        arrays |= {f"{part}_labels": np.zeros(1, np.int64) for part in ("train", "test")}
        write_arrays(tmp_path, name, arrays, num_classes=10)
    monkeypatch.chdir(tmp_path)
    before: dict[str, str] = {}

    def change(**changes) -> set[str]:
        Path("params.yaml").write_text(yaml_files.dump(VALUES | {"seeds": [0], "num_seeds": {}} | changes))
        for name in load_study().benchmarks:
            inputs.main(Namespace(benchmark=name))
        after = {str(path.relative_to("inputs/runs").with_suffix("")): path.read_text() for path in files()}
        different = {name for name, text in after.items() if before.get(name) != text}
        before.clear()
        before.update(after)
        return different

    return change


def files() -> list[Path]:
    return sorted(Path("inputs", "runs").rglob("*.json"))


def trained() -> set[str]:
    return {str(key.directory.relative_to("runs")) for key in load_study().runs()}


def test_every_item_of_the_matrix_has_a_file(changed):
    assert len(changed(seeds=[0, 1])) == 2 * len(VALUES["benchmarks"]) * len(VALUES["variants"])
    assert changed(seeds=[0, 1]) == set()
    changed(seeds=[0])
    assert {path.stem for path in files()} == {"seed-0"}


def test_one_more_seed_of_a_benchmark_is_a_change_of_these_runs_alone(changed):
    study = {"seeds": [0, 1, 2]}
    changed(**study, num_seeds={"mnist_dense": 1})
    of_study = trained()
    different = changed(**study, num_seeds={"mnist_dense": 2})
    runs = trained() - of_study
    assert different == runs
    assert {Path(name).name for name in runs} == {"seed-1"}
    assert {Path(name).parts[0] for name in runs} == {"mnist_dense"}
    different = changed(**study, num_seeds={}, num_seeds_by_variant={"mnist_dense": {"float32": 2}})
    assert "mnist_dense/float32/seed-2" not in different
    assert "mnist_dense/float32_2x/seed-2" in different


def test_what_the_study_says_of_every_run_is_in_every_file(changed):
    changed()
    assert changed(campaign="second") == trained()


def test_a_changed_recipe_retrains_its_own_benchmark(changed):
    changed()
    recipe = VALUES["benchmarks"]["mnist_dense"]
    different = changed(benchmarks=VALUES["benchmarks"] | {"mnist_dense": recipe | {"num_epochs": 3}})
    assert different == {name for name in trained() if Path(name).parts[0] == "mnist_dense"}


@pytest.mark.parametrize(
    ("path", "retrains"),
    [
        ("Dockerfile", True),
        ("requirements/cpu.txt", True),
        ("requirements/cuda.txt", False),
        ("requirements/development.txt", False),
    ],
)
def test_another_image_or_runtime_package_retrains_everything(changed, path, retrains):
    changed()
    Path(path).write_text(f"{Path(path).read_text()}\n# edited\n")
    assert changed() == (trained() if retrains else set())


def test_what_decides_no_run_is_in_no_file(changed):
    changed()
    margins = dict.fromkeys(VALUES["comparison"]["margin_pp"], 0.125)
    assert changed(comparison=VALUES["comparison"] | {"margin_pp": margins}, max_run_seconds=100.0) == set()


@pytest.mark.parametrize(
    ("path", "benchmarks"),
    [
        ("pipeline/training/clock.py", {"mnist_dense", "cifar100_efficientnet_b0"}),
        ("pipeline/models/dense.py", {"mnist_dense"}),
        ("pipeline/report/figures.py", set()),
        ("pipeline/claims/verdicts.py", set()),
    ],
)
def test_an_edited_line_of_code_trains_what_runs_it_and_a_reworded_comment_nothing(changed, path, benchmarks):
    changed()
    turns = {file: file.read_text() for file in Path("inputs", "speed").iterdir()}
    text = Path(path).read_text()
    Path(path).write_text(f'"""Say it in other words."""\n{text}\n# a remark\n')
    assert changed() == set()
    assert turns == {file: file.read_text() for file in turns}
    Path(path).write_text(f"{text}\nEDITED = 1\n")
    assert changed() == {name for name in trained() if Path(name).parts[0] in benchmarks}


def test_a_file_names_what_has_changed(changed):
    changed()
    path = Path("inputs/runs/mnist_dense/float32/seed-0.json")
    before = json.loads(path.read_text())
    clock = Path("pipeline/training/clock.py")
    clock.write_text(f"{clock.read_text()}\nEDITED = 1\n")
    changed(campaign="second")
    after = json.loads(path.read_text())
    code = next(key for key in before if "of code" in key)
    assert {name for name in before if before[name] != after[name]} == {"study", code}
    assert {name for name in before[code] if before[code][name] != after[code][name]} == {"pipeline/training"}
    assert (before["study"]["campaign"], after["study"]["campaign"]) == ("first", "second")
