"""The identity of a run: it holds everything that decides the run, and nothing else."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import REPOSITORY, write_arrays

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.places import SPEED
from pipeline.store import identity
from pipeline.store.identity import (
    TRAINING_CODE,
    check_current,
    check_read,
    of_numerics,
    of_runs,
    of_speed,
)
from pipeline.store.kept import obtain
from pipeline.store.plan import check_packages, made_otherwise, missing_runs, stopped_once, unmade
from pipeline.study.policies import POLICIES
from pipeline.study.schema import RunKey, Study
from stages.check import forecast

VALUES = yaml_files.load(REPOSITORY / "params.yaml") | {"seeds": [0], "num_seeds": {}, "num_seeds_by_variant": {}}
BENCHMARKS = set(VALUES["benchmarks"])
ON_MNIST = {name for name, benchmark in VALUES["benchmarks"].items() if benchmark["dataset"] == "mnist"}
DENSE = {name for name, benchmark in VALUES["benchmarks"].items() if benchmark["model"]["name"] == "dense"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A study's folder, whose runs are a word each."""
    for name in ("pipeline", "stages"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in VALUES["datasets"]:
        arrays = {f"{part}_images": np.zeros((1, 1, 1, 1), np.uint8) for part in ("train", "test")}
        arrays |= {f"{part}_labels": np.zeros(1, np.int64) for part in ("train", "test")}
        write_arrays(tmp_path, name, arrays, num_classes=10)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(identity, "installed_engine", lambda: "cpu")
    return tmp_path


def study(**changes) -> Study:
    return Study.model_validate(VALUES | changes)


def make_all(found: Study) -> None:
    for benchmark in found.benchmarks:
        for key, of in of_runs(found, benchmark).items():
            obtain(key.directory, of, lambda run: run.joinpath("record.json").write_text('{"outcome": "completed"}'))


def benchmarks_of(runs: list[RunKey]) -> set[str]:
    return {key.benchmark for key in runs}


def edit(path: str, text: str) -> None:
    Path(path).write_text(Path(path).read_text() + text)


def test_a_new_seed_needs_only_its_own_runs_and_a_removed_variant_needs_none():
    make_all(study())
    assert {key.seed for key in missing_runs(study(seeds=[0, 7]))} == {7}
    variants = {name: values for name, values in VALUES["variants"].items() if name != "mixed_bfloat16"}
    assert missing_runs(study(variants=variants)) == []


def test_a_variant_added_to_another_benchmark_needs_runs_only_there():
    make_all(study())
    more = VALUES["variants"]["planted_loss"] | {"benchmarks": ["mnist_dense_256", "mnist_dense"]}
    assert missing_runs(study(variants=VALUES["variants"] | {"planted_loss": more})) == [
        RunKey("mnist_dense", "planted_loss", 0)
    ]


def test_a_changed_recipe_or_variant_repeats_only_its_own_runs():
    make_all(study())
    recipe = VALUES["benchmarks"]["mnist_dense"] | {"num_epochs": 3}
    again = missing_runs(study(benchmarks=VALUES["benchmarks"] | {"mnist_dense": recipe}))
    assert again == [key for key in study().runs() if key.benchmark == "mnist_dense"]
    planted = VALUES["variants"]["planted_loss"] | {"learning_rate_multiplier": 0.25}
    assert missing_runs(study(variants=VALUES["variants"] | {"planted_loss": planted})) == [
        RunKey("mnist_dense_256", "planted_loss", 0)
    ]


def test_the_forecast_counts_speeds_of_other_variants_as_unmeasured():
    make_all(study())
    for name in study().timed_benchmarks:
        of = of_speed(study(), name, "this CPU", None)
        obtain(SPEED / name, of, lambda folder: folder.joinpath("measurement.json").write_text("{}"))
    assert forecast(study(), on_cpu=False).numbers["num_unmeasured"] == 0
    mixed = VALUES["variants"]["mixed_bfloat16"] | {"benchmarks": ["mnist_dense_256"], "float32_layers": ["Dense"]}
    more = study(variants=VALUES["variants"] | {"mixed": mixed})
    assert forecast(more, on_cpu=False).numbers["num_unmeasured"] == 1


def test_the_forecast_counts_the_runs_that_edited_code_repeats():
    def num_missing() -> int:
        return forecast(study(), on_cpu=False).numbers["num_missing"]

    make_all(study())
    assert num_missing() == 0
    edit("pipeline/training/loops.py", "EDITED = True\n")
    assert num_missing() == len(study().runs())


def test_changing_a_setting_that_affects_no_run_repeats_nothing():
    make_all(study())
    margins = dict.fromkeys(VALUES["comparison"]["margin_pp"], 0.125)
    other = {"comparison": VALUES["comparison"] | {"margin_pp": margins}, "max_run_seconds": 100.0}
    assert missing_runs(study(**other, description="in other words")) == []


def test_a_stopped_run_is_retried_once_and_then_counts_only_under_its_own_limit():
    def stopped(num_stops: int) -> None:
        for key, of in of_runs(study(), "mnist_dense").items():
            text = json.dumps({"outcome": "too_slow", "times": {"max_run_seconds": 120.0, "num_stops": num_stops}})
            obtain(key.directory, of, lambda run, text=text: run.joinpath("record.json").write_text(text), again=True)

    make_all(study())
    for count, again in ((0, {"mnist_dense"}), (1, {"mnist_dense"}), (2, set())):  # early records have no count
        stopped(count)
        assert benchmarks_of(missing_runs(study(max_run_seconds=120.0))) == again
        assert stopped_once(study(max_run_seconds=120.0)) == [f"train@{name}" for name in again]
    assert benchmarks_of(missing_runs(study(max_run_seconds=240.0))) == {"mnist_dense"}


def test_runs_and_speeds_of_another_study_are_recognised():
    make_all(study())
    assert made_otherwise(study()) == ([], [])
    faster = VALUES["benchmarks"]["mnist_dense_256"]["optimizer"] | {"learning_rate": 0.5}
    recipe = VALUES["benchmarks"]["mnist_dense_256"] | {"optimizer": faster}
    other = study(benchmarks=VALUES["benchmarks"] | {"mnist_dense_256": recipe})
    obtain(Path("results/speed/mnist_dense_256"), of_speed(study(), "mnist_dense_256", "V100", "580"), lambda _: None)
    assert made_otherwise(study()) == ([], []), "on whatever device"
    runs, speeds = made_otherwise(other)
    assert (benchmarks_of(runs), speeds) == ({"mnist_dense_256"}, ["mnist_dense_256"])
    assert {"train@mnist_dense_256", "speed@mnist_dense_256", "numerics"} <= {*unmade(other)}
    shutil.rmtree(runs[0].directory)
    assert "train@mnist_dense_256" in unmade(study())


def test_the_error_names_the_file_that_was_edited():
    before = of_runs(study(), "mnist_dense")
    for path in ("pipeline/models/dense.py", "pipeline/training/clock.py"):
        edit(path, "EDITED = 1\n")
        with pytest.raises(InputError, match=f"^{path} was edited while"):
            check_current(before, of_runs(study(), "mnist_dense"))
        before = of_runs(study(), "mnist_dense")
    check_current(before, dict(list(before.items())[1:]))  # a run less
    with pytest.raises(InputError, match=r"^params\.yaml was edited while this command worked, so 1 of "):
        check_current(dict(list(before.items())[1:]), before)
    numerics, more = ({"numerics": of_numerics(study(**on), "V100")} for on in ({}, {"numerics_on": None}))
    with pytest.raises(InputError, match=r"^params\.yaml was edited while this command worked, so the result is still"):
        check_current(numerics, more)


def test_the_error_names_the_file_and_line_of_a_half_finished_edit():
    Path("pipeline/training/clock.py").write_text("def half_a_\n")
    with pytest.raises(InputError, match=r"^pipeline/training/clock\.py, line 1: "):
        of_runs(study(), "mnist_dense")


def test_a_damaged_record_does_not_count_as_stopped():
    make_all(study())
    path = RunKey("mnist_dense", "float32", 0).directory / "record.json"
    path.write_text('{"outc')
    assert stopped_once(study()) == []
    assert path.parent.name == "seed-0"


@pytest.mark.parametrize(
    ("path", "again"),
    [
        ("pipeline/training/clock.py", BENCHMARKS),
        ("pipeline/models/dense.py", DENSE),
        ("pipeline/store/progress.py", set()),
        ("pipeline/claims/verdicts.py", set()),
    ],
)
def test_a_code_edit_repeats_the_runs_that_use_it_and_a_comment_repeats_none(path, again):
    make_all(study())
    text = Path(path).read_text()
    Path(path).write_text(f'"""Say it in other words."""\n{text}\n# a remark\n')
    assert missing_runs(study()) == []
    Path(path).write_text(f"{text}\nEDITED = 1\n")
    assert benchmarks_of(missing_runs(study())) == again


def test_changed_images_repeat_the_benchmarks_that_use_them():
    make_all(study())
    path = Path("data/mnist/dataset.json")
    description = json.loads(path.read_text())
    path.write_text(json.dumps(description | {"sha256": description["sha256"] | {"train_images": "0" * 64}}))
    assert benchmarks_of(missing_runs(study())) == ON_MNIST


@pytest.mark.parametrize(("name", "value"), [("installed_engine", "cuda"), ("variables", {"OMP_NUM_THREADS": "1"})])
def test_changing_the_engine_or_a_recorded_environment_variable_repeats_every_run(monkeypatch, name, value):
    make_all(study())
    monkeypatch.setattr(identity, name, lambda: value)
    assert missing_runs(study()) == study().runs()


def test_runs_that_differ_only_in_packages_are_not_silently_repeated(monkeypatch):
    make_all(study())
    monkeypatch.setattr(identity, "_packages", lambda _: {"keras": "9.0"})
    (key, of), *_ = of_runs(study(), "mnist_dense").items()
    with pytest.raises(InputError, match=r"seed-0 was made with keras 3\S+ \(here 9\.0\).* a new `campaign`"):
        check_packages(key.directory, of)
    (key, of), *_ = of_runs(study(campaign="second"), "mnist_dense").items()
    check_packages(key.directory, of)  # the way on
    check_packages(Path("nowhere"), of)


def test_the_identity_of_speed_covers_device_driver_budget_and_code_and_that_of_numerics_the_device():
    found = study()
    here = of_speed(found, "mnist_dense", "V100", "580")
    assert here == of_speed(found, "mnist_dense", "V100", "580")
    assert here != of_speed(found, "mnist_dense", "H200", "580")
    assert here != of_speed(found, "mnist_dense", "V100", "590")
    shorter = study(speed=VALUES["speed"] | {"budgets": {"mnist_dense": 7.0}})
    assert here != of_speed(shorter, "mnist_dense", "V100", "580")
    of_another = of_speed(found, "cifar100_efficientnet_b0", "V100", "580")
    assert of_another == of_speed(shorter, "cifar100_efficientnet_b0", "V100", "580")
    assert of_numerics(found, "V100") != of_numerics(found, "H200")
    edit("pipeline/speed/turns.py", "\nEDITED = 1\n")
    assert here != of_speed(found, "mnist_dense", "V100", "580")
    make_all(found)
    edit("pipeline/speed/training.py", "\nEDITED = 1\n")
    assert missing_runs(found) == []


def test_a_changed_policy_repeats_only_its_own_runs_and_a_new_colour_none(monkeypatch):
    found = study()
    make_all(found)
    row = POLICIES["mixed_bfloat16"]
    monkeypatch.setitem(POLICIES, "mixed_bfloat16", row._replace(colour="#000000", label="bf16"))
    assert missing_runs(found) == []
    monkeypatch.setitem(POLICIES, "mixed_bfloat16", row._replace(variables="float16"))
    assert {found.variants[key.variant].policy for key in missing_runs(found)} == {"mixed_bfloat16"}


def test_a_run_is_rejected_if_its_process_read_another_version_of_its_policy(monkeypatch):
    found = study()
    (key, of), *_ = of_runs(found, "mnist_dense").items()
    row = POLICIES[found.variants[key.variant].policy]
    monkeypatch.setitem(POLICIES, found.variants[key.variant].policy, row._replace(variables="float16"))
    with pytest.raises(InputError, match=r"pipeline/study/policies\.py was edited"):
        check_read(found, "mnist_dense", TRAINING_CODE, of)
