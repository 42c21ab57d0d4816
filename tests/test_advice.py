"""Advice: on made-up times whose answer is known, and asked for as a user does."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from conftest import REPOSITORY, timed_blocks
from projects import PROFILE, dense_study, make_project

from bench.fake_datasets import write_fake_tfds
from pipeline.advice.advising import advise, worth_a_study
from pipeline.advice.proposal import propose
from pipeline.errors import InputError
from pipeline.health.findings import Examination, Finding
from pipeline.machine.hardware import Hardware
from pipeline.speed.blocks import REPEAT, PlacedBlock
from pipeline.speed.measuring import speeds_of
from pipeline.speed.sizing import MIN_TURNS
from pipeline.speed.turns import MIN_LAUNCHES, Measurement
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import Study, load_study
from stages import advise as stage

GPU = Hardware("nvidia_gpu", "Example GPU", 9.0)
OLD_CPU = Hardware("cpu", "Example CPU", cpu_features=("avx2",))
DENSE = {"name": "dense", "units": 8, "source": "pipeline/models/dense.py"}
MNIST = {"num_train_examples": 60000, "image_shape": [28, 28, 1]}


def study(**changes) -> Study:
    values = propose(DENSE, "mnist", DatasetSource(tfds="mnist"), MNIST, 128, runtime="cpu", **changes)
    return Study.model_validate(values)


def blocks(failed=(), spread: float = 0.0, **seconds: float) -> list[PlacedBlock]:
    """Three launches of two turns; `seconds` by variant for what float32 at B trains in one."""
    (name,) = study().benchmarks
    return timed_blocks(study(), name, seconds, spread=spread, failed=dict(failed))


def changed(found: list[PlacedBlock], **changes) -> list[PlacedBlock]:
    return [block.model_copy(update=changes) for block in found]


def advice(found: list[PlacedBlock], health=(), hardware=GPU, largest=None):
    (name,) = study().benchmarks
    speeds = speeds_of(study(), name, found)
    proposed = study(policies=worth_a_study(study(), speeds))
    measurement = Measurement(found, "the budget is spent", True, 60.0)
    return advise(study(), proposed, measurement, speeds, health, hardware, largest or {})


FASTER = {"mixed_float16": 0.5, "mixed_float16_2x": 0.4, "mixed_bfloat16": 0.8, "mixed_bfloat16_2x": 0.8}


def test_the_faster_policy_and_the_faster_batch():
    found = advice(blocks(**FASTER))
    assert (found.policy, found.batch_size) == ("mixed_float16", 256)
    assert found.verdict[0].startswith(
        "Use mixed_float16: mixed_float16 runs at 2.00× [2.00, 2.00] the speed of float32"
    )
    assert "256 rather than 128 gives 1.25× [1.25, 1.25]" in found.verdict[1]
    row = next(row for row in found.rows if row.variant == "mixed_float16")
    assert row.images_per_second == pytest.approx(2 * 54000, rel=1e-3)
    assert row.memory_ratio == 1


def test_without_a_gain_nothing_is_turned_on():
    found = advice(blocks(mixed_float16=1.25, mixed_bfloat16=2.0, float32_2x=1.1))
    assert (found.policy, found.batch_size) == ("float32", 128)
    assert "Stay with float32: mixed_float16 runs at 0.80× [0.80, 0.80]" in found.verdict[0]
    assert "and it is the faster of the 16-bit policies" in found.verdict[0]
    assert "Keep batch 128: twice the batch is slower" in found.verdict[1]
    alone = advice(blocks({"mixed_float16": "diverged"}, mixed_bfloat16=2.0))
    assert "the speed of float32 at batch 128." in alone.verdict[0]


def test_an_interval_that_holds_one_is_no_gain():
    found = advice(blocks(spread=0.3, mixed_float16=0.9, mixed_bfloat16=2.0))
    assert found.policy == "float32"
    assert "no gain is shown, mixed_float16" in found.verdict[0]
    assert "brings no gain that shows" in found.verdict[1]


def test_a_batch_that_does_not_fit_is_not_advised():
    found = advice(blocks({"mixed_float16_2x": "out_of_memory"}, **FASTER))
    assert (found.policy, found.batch_size) == ("mixed_float16", 128)
    assert "Keep batch 128: under mixed_float16, 256 does not fit into memory." in found.verdict[1]
    assert "mixed_float16_2x: out of memory at batch 256." in found.watch
    assert found.study_seconds is None  # of what was not measured


def test_a_faulty_policy_is_not_advised_however_fast():
    fault = Finding(rule="float16_range", layers=["a", "b", "c", "d"], what="activations reach 1e+06")
    seen = Examination(
        policy="mixed_float16", findings=[fault], largest_activation=1e6, flushed_share=0, flushed_share_scaled=0
    )
    found = advice(blocks(**FASTER), [seen])
    assert found.policy == "mixed_bfloat16"
    (line,) = [line for line in found.watch if line.startswith("fault")]
    assert line.startswith("fault under mixed_float16, a, b, c and 1 more: activations reach 1e+06. Scale images")


def test_where_no_16_bit_policy_trains():
    diverged = dict.fromkeys(("mixed_float16", "mixed_bfloat16"), "diverged")
    found = advice(blocks(diverged))
    assert "no 16-bit policy is fit for this model as it is (mixed_float16: diverged, " in found.verdict[0]
    assert not [line for line in found.verdict if "seeds" in line]  # there is nothing left to compare
    fault = Finding(rule="float16_range", layers=["a"], what="activations reach 1e+06")
    policies = ("mixed_float16", "mixed_bfloat16")
    sizes = {"largest_activation": 1e6, "flushed_share": 0, "flushed_share_scaled": 0}
    seen = [Examination(policy=policy, findings=[fault], **sizes) for policy in policies]
    assert "(mixed_float16: ran, with a fault, " in advice(blocks(**FASTER), seen).verdict[0]


def test_what_is_hopelessly_slow_has_no_place_in_the_study():
    found = advice(blocks(**{name: 5.0 for name in study().variants if "16" in name}))
    assert "Stay with float32: mixed_float16 runs at 0.20× [0.20, 0.20] the speed" in found.verdict[0]
    assert any(line.startswith("No place in the study for what takes 3 times as long: mixed") for line in found.watch)
    assert found.num_seeds < len(study().seeds)  # fewer candidates ask for less


def test_what_to_watch():
    noisy = changed(blocks(), num_skipped_steps=9, other_cpu_share=0.5)
    watch = advice(noisy, hardware=OLD_CPU).watch
    assert any(line.startswith("mixed_float16: gradients overflowed in 9 steps") for line in watch)
    assert "Other work took 50% of the CPU time: ask again on a quiet machine." in watch
    assert sum("emulates" in line for line in watch) == 2
    assert not [
        line for line in advice(blocks()).watch if "Other work" in line or "emulates" in line or "overflowed" in line
    ]


def test_the_seeds_are_those_of_the_plan():
    """Two runs whose accuracies vary by 0.5 pp differ by 0.71; `make plan` says as much for five candidates."""
    command = [
        sys.executable,
        "-m",
        "stages.plan",
        "--spread-pp",
        "0.707107",
        "--margin-pp",
        "1",
        "--num-candidates",
        "5",
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1].split()[-2]) == len(study().seeds) == advice(blocks()).num_seeds
    assert len(study(margin_pp=2.0).seeds) < len(study().seeds) < len(study(margin_pp=0.5).seeds)


@pytest.fixture
def project(workspace, monkeypatch):
    """A folder with a study and a tiny prepared data set, mnist, of 8 × 8 images."""
    shutil.copy(REPOSITORY / "params.yaml", workspace)
    path = workspace / "data" / "mnist" / "dataset.json"
    description = json.loads(path.read_text()) | {"num_train_examples": 60, "image_shape": [8, 8, 1]}
    path.write_text(json.dumps(description))
    (workspace / "advice").mkdir()
    note = stage._note(load_study().datasets["mnist"].model_dump(), description)
    (workspace / "advice" / "mnist.prepared.json").write_text(note)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return workspace


def ask(**changes):
    usual = {"model": "dense", "dataset": "mnist", "batch": 8, "budget": 1, "source": None, "arguments": None}
    usual |= {"image_size": None, "margin_pp": 1.0, "out": None}
    stage.main(argparse.Namespace(**(usual | changes)))


def test_asked_for_as_a_user_does(project, monkeypatch, capsys):
    """A real measurement of two policies on a model of one's own, from the question to a study that can be run."""
    monkeypatch.setattr(stage, "ADVISED_POLICIES", ("float32", "mixed_bfloat16"))
    (project / "mine.py").write_text(OWN_MODEL)
    ask(model="mine:build", arguments={"units": 8})
    folder = project / "advice" / "mnist_build"
    found = json.loads((folder / "advice.json").read_text())
    assert found["num_turns_by_launch"] == [MIN_TURNS] * MIN_LAUNCHES  # a second is not enough for more
    assert {block["variant"] for block in found["blocks"]} == {REPEAT, *(row["variant"] for row in found["rows"])}
    assert {block["outcome"] for block in found["blocks"]} == {"completed"}
    assert all(row["speedup"]["low"] for row in found["rows"][1:])
    assert all(row["images_per_second"] > 0 and row["peak_memory_bytes"] > 10**8 for row in found["rows"])
    assert all(seen["findings"] == [] for seen in found["health"])
    printed = capsys.readouterr().out
    assert "cp advice/mnist_build/params.yaml params.yaml && make repro" in printed
    assert "mixed_bfloat16_2x" in printed
    proposed = load_study(folder / "params.yaml")
    assert proposed.benchmarks["mnist_build"].model.source == "mine.py"
    assert {"float32", "float32_2x"} <= set(proposed.variants)
    assert yaml.safe_load((folder / "params.yaml").read_text())["benchmarks"]["mnist_build"]["batch_size"] == 8


@pytest.mark.usefixtures("project")
def test_preparing_data_takes_nothing_of_the_time_to_measure(monkeypatch):
    """As if it took 1,000 seconds: all that is left of 900 is measured in, less what the examination takes."""
    passed, budgets, prepared = [0.0], [], stage.prepared

    def download(*arguments, **options):
        passed[0] += 1000
        return prepared(*arguments, **options)

    def measure(study, *_):
        budgets.append(study.speed.budget_seconds)
        raise InputError("seen enough")

    monkeypatch.setattr(stage, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0]))
    monkeypatch.setattr(stage, "prepared", download)
    monkeypatch.setattr(stage, "measure_benchmark", measure)
    monkeypatch.setattr(stage, "ADVISED_POLICIES", ("float32", "mixed_bfloat16"))
    with pytest.raises(InputError, match="seen enough"):
        ask(budget=900)
    assert 100 < budgets[0] < 900


def test_data_are_prepared_again_where_they_come_from_another_source(tmp_path, monkeypatch, capsys):
    values = dense_study(num_epochs=2)
    make_project(tmp_path / "project", values, PROFILE)
    write_fake_tfds(tmp_path / "tfds", names=["fashion_mnist"])
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the copy's own modules
    monkeypatch.chdir(tmp_path / "project")
    subprocess.run([sys.executable, "-m", "dvc", "repro", "--quiet", "download@mnist"], check=True)

    def ready(**changes) -> tuple[int, bool]:
        """How many examples data/mnist has for the study with that source, and whether they had to be prepared."""
        source = {"tfds": "fashion_mnist"} | changes
        Path("params.yaml").write_text(yaml.safe_dump(values | PROFILE | {"datasets": {"mnist": source}}))
        found = stage.prepared("mnist", DatasetSource(**source), in_study=True)
        return found["num_train_examples"], capsys.readouterr().out == "preparing mnist\n"

    assert ready() == (60, False)  # by DVC
    assert ready(train="train[:50%]") == (30, True)
    assert ready(train="train[:50%]") == (30, False)
    assert ready() == (60, True)
    assert ready() == (60, False)


OWN_MODEL = """
import keras

print("what a module says when it is imported is no answer")


def build(spec):
    return keras.Sequential([
        keras.Input(spec.image_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(spec.arguments["units"], activation="relu"),
        keras.layers.Dense(spec.num_classes),
        keras.layers.Activation("softmax", dtype="float32"),
    ])
"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 40}, "--batch: twice the batch must be at most the 54 training examples"),
        ({"model": "lost:build"}, "lost.py does not exist"),
        ({"model": "nonsense"}, "model"),
        ({"model": "faulty:two"}, "must take one argument, a ModelSpec. Received: a, b"),
        ({"model": "dense", "arguments": {"unit": 8}}, "unknown key. Did you mean 'units'?"),
        ({"dataset": "Not A Name"}, "--dataset Not A Name: 1 fault"),
        ({"margin_pp": 0.01}, "--margin-pp: so small a margin takes more than 1000 seeds"),
    ],
)
def test_bad_input_starts_nothing(project, changes, words):
    (project / "faulty.py").write_text("def two(a, b): ...\n")
    with pytest.raises(InputError) as raised:
        ask(**changes)
    assert words in str(raised.value)
    assert not list(project.glob("advice/*/advice.json"))


def test_a_model_that_cannot_be_built_is_named_before_training(project, capfd):
    (project / "mine.py").write_text(OWN_MODEL.replace('dtype="float32"', 'dtype="float16"'))
    with pytest.raises(InputError) as raised:
        ask(model="mine:build", arguments={"units": 8})
    assert str(raised.value).startswith('mine:build must return float32: give its last layer dtype="float32"')
    assert "turn" not in capfd.readouterr().out


@pytest.mark.parametrize("arguments", [["--batch", "0"], ["--arguments", "[1]"], ["--margin-pp", "-1"]])
def test_bad_arguments_are_refused(arguments):
    command = [sys.executable, "-m", "stages.advise", "--model", "dense", "--dataset", "mnist", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"Received: {arguments[1]}" in done.stderr
