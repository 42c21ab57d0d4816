"""Advice: a study of one's own model, asked for as a user does."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import PROFILE, dense_study, make_project

from bench.fake_datasets import write_fake_tfds
from pipeline.errors import InputError
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import load_study
from stages import advise as stage


@pytest.fixture
def project(workspace, monkeypatch):
    """A folder with a study and a tiny prepared data set, mnist, of 8 × 8 images."""
    shutil.copy(REPOSITORY / "params.yaml", workspace)
    path = workspace / "data" / "mnist" / "dataset.json"
    description = json.loads(path.read_text()) | {"num_train_examples": 60, "image_shape": [8, 8, 1]}
    path.write_text(json.dumps(description))
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return workspace


def ask(**changes):
    usual = {"model": "dense", "dataset": "mnist", "batch": 8, "source": None, "arguments": None, "image_size": None}
    stage.main(argparse.Namespace(**(usual | changes)))


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


def test_asked_for_as_a_user_does(project, capfd):
    """From the question to a study that can be run, and the model examined under each policy."""
    (project / "mine.py").write_text(OWN_MODEL)
    ask(model="mine:build", arguments={"units": 8})
    path = project / "advice" / "mnist_build" / "params.yaml"
    proposed = load_study(path)
    recipe = proposed.benchmarks["mnist_build"]
    assert (recipe.model.source, recipe.batch_size, recipe.image_size) == ("mine.py", 8, 8)
    policies = ("float32", "mixed_float16", "mixed_bfloat16")
    assert {*proposed.variants} == {f"{policy}{multiple}" for policy in policies for multiple in ("", "_2x")}
    printed = capfd.readouterr().out
    assert [f"{policy}: nothing found" in printed for policy in policies] == [True] * 3
    assert "cp advice/mnist_build/params.yaml params.yaml && make repro" in printed


def test_data_that_are_not_there_are_prepared(tmp_path, monkeypatch, capfd):
    make_project(tmp_path / "project", dense_study(num_epochs=2), PROFILE)
    write_fake_tfds(tmp_path / "tfds", names=["fashion_mnist"])
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the copy's own modules
    monkeypatch.chdir(tmp_path / "project")
    for is_first in (True, False):
        found = stage.prepared("mnist", DatasetSource(tfds="fashion_mnist"), in_study=True)
        assert found["num_train_examples"] == 60
        assert ("preparing mnist\n" in capfd.readouterr().out) is is_first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 40}, "--batch: twice the batch must be at most the 54 training examples"),
        ({"model": "lost:build"}, "lost.py does not exist"),
        ({"model": "nonsense"}, "model"),
        ({"model": "faulty:two"}, "must take one argument, a ModelSpec. Received: a, b"),
        ({"model": "dense", "arguments": {"unit": 8}}, "unknown key. Did you mean 'units'?"),
        ({"dataset": "Not A Name"}, "--dataset Not A Name: 1 fault"),
    ],
)
def test_bad_input_starts_nothing(project, changes, words):
    (project / "faulty.py").write_text("def two(a, b): ...\n")
    with pytest.raises(InputError) as raised:
        ask(**changes)
    assert words in str(raised.value)
    assert not list(project.glob("advice/*/params.yaml"))


def test_a_model_that_cannot_be_built_is_named(project, capfd):
    (project / "mine.py").write_text(OWN_MODEL.replace('dtype="float32"', 'dtype="float16"'))
    with pytest.raises(SystemExit) as raised:
        ask(model="mine:build", arguments={"units": 8})
    assert raised.value.code == 2
    printed = capfd.readouterr()
    assert 'mine:build must return float32: give its last layer dtype="float32"' in printed.err
    assert "make repro" not in printed.out


@pytest.mark.parametrize("arguments", [["--batch", "0"], ["--arguments", "[1]"]])
def test_bad_arguments_are_refused(arguments):
    command = [sys.executable, "-m", "stages.advise", "--model", "dense", "--dataset", "mnist", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"Received: {arguments[1]}" in done.stderr
