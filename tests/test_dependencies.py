"""What each run depends on: no less than what decides it, and nothing that does not."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
from conftest import REPOSITORY

from pipeline.files import yaml_files
from pipeline.study.schema import load_study
from stages import dependencies

VALUES = yaml_files.load(REPOSITORY / "params.yaml")


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """A function that changes the study and returns the runs whose files are not what they were."""
    for path in REPOSITORY.iterdir():
        if path.name not in ("params.yaml", "inputs"):
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    before: dict[str, str] = {}

    def change(**changes) -> set[str]:
        Path("params.yaml").write_text(yaml_files.dump(VALUES | changes))
        for name in load_study().benchmarks:
            path = Path("inputs", "benchmarks", f"{name}.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(name))
        dependencies.main(Namespace())
        after = {str(path.relative_to("inputs/runs").with_suffix("")): path.read_text() for path in files()}
        different = {name for name, text in after.items() if before.get(name) != text}
        before.clear()
        before.update(after)
        return different

    return change


def files() -> list[Path]:
    return sorted(Path("inputs", "runs").rglob("*.json"))


def test_every_item_of_the_matrix_has_a_file(changed):
    assert len(changed(seeds=[0, 1])) == 2 * len(VALUES["benchmarks"]) * len(VALUES["variants"])
    assert changed(seeds=[0, 1]) == set()
    changed(seeds=[0])
    assert {path.stem for path in files()} == {"seed-0"}


def test_one_more_seed_of_a_benchmark_is_a_change_of_these_runs_alone(changed):
    study = {"seeds": [0, 1, 2]}
    changed(**study, num_seeds={"mnist_dense": 1})
    of_study = {str(key.directory.relative_to("runs")) for key in load_study().runs()}
    different = changed(**study, num_seeds={"mnist_dense": 2})
    runs = {str(key.directory.relative_to("runs")) for key in load_study().runs()} - of_study
    assert different == runs
    assert {Path(name).name for name in runs} == {"seed-1"}
    assert {Path(name).parts[0] for name in runs} == {"mnist_dense"}
    different = changed(**study, num_seeds={}, num_seeds_by_variant={"mnist_dense": {"float32": 2}})
    assert "mnist_dense/float32/seed-2" not in different
    assert "mnist_dense/float32_2x/seed-2" in different


def test_a_variant_that_one_more_benchmark_has_is_what_it_was_to_the_others(changed):
    name = next(name for name, variant in VALUES["variants"].items() if variant.get("benchmarks") == ["mnist_dense"])
    more = VALUES["variants"][name] | {"benchmarks": list(VALUES["benchmarks"])}
    changed(seeds=[0], num_seeds={})
    different = changed(seeds=[0], num_seeds={}, variants=VALUES["variants"] | {name: more})
    assert different == {f"cifar100_efficientnet_b0/{name}/seed-0"}


def test_what_the_study_says_of_every_run_is_in_every_file(changed):
    changed(seeds=[0], num_seeds={})
    trained = {str(key.directory.relative_to("runs")) for key in load_study().runs()}
    assert changed(seeds=[0], num_seeds={}, campaign="second") == trained
