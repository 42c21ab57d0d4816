"""Advice: a small study of one's own model, composed as a user asks for it."""

import argparse
import json
import shutil
from pathlib import Path

import projects
import pytest
import yaml
from comparisons import between, pair, run
from conftest import REPOSITORY, write_data

from pipeline.advice.proposal import (
    PROCESS_SECONDS,
    STUDY_SECONDS,
    TRACING,
    YOURS,
    Size,
    choose_size,
    propose,
    slow_policy,
)
from pipeline.comparison.tables import Tables
from pipeline.errors import InputError
from pipeline.study.schema import Study, load_study
from stages import advise as stage
from stages import compose as stage_compose
from stages import train as stage_train


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a study and a tiny prepared data set, mnist, of 60 images of 8 × 8."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_data(folder)
    for name in ("params.yaml", "claims.yaml"):
        shutil.copy(REPOSITORY / name, folder)
    for name in ("conf", "pipeline", "stages"):
        (folder / name).symlink_to(REPOSITORY / name)
    path = folder / "data" / "mnist" / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_train_examples": 60}))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    for module in (stage, stage_train):
        monkeypatch.setattr(module, "call", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(stage, "prepare_arrays", lambda *_: Path("data"))
    return folder


def ask(**changes) -> Study:
    """The study composed in this folder."""
    usual = {
        "model": "dense",
        "dataset": "mnist",
        "batch": 8,
        "source": None,
        "arguments": {},
        "image_size": None,
        "recipe": {},
    }
    stage.compose_study(argparse.Namespace(**(usual | changes)))
    return load_study()


OWN_MODEL = """
import keras

print("what a module says when it is imported is no answer")


def build(spec):
    return keras.Sequential([
        keras.Input(spec.image_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(spec.arguments["units"], activation="relu"),
        keras.layers.Dense(8, dtype="float32", name="stubborn"),
        keras.layers.Dense(spec.num_classes),
        keras.layers.Activation("softmax", dtype="float32"),
    ])
"""


def test_advise_composes_a_study_and_keeps_the_users_edits(project, monkeypatch, capfd):
    """The study that was there before is kept, too."""
    before = (project / "params.yaml").read_bytes()
    (project / "mine.py").write_text(OWN_MODEL)
    asked = {"model": "mine:build", "arguments": {"units": 8}}
    study = ask(**asked)
    recipe = study.benchmarks[YOURS]
    assert (recipe.batch_size, recipe.image_size, recipe.model.source) == (8, 8, "mine.py")
    policies = ("float32", "mixed_float16", "mixed_bfloat16")
    assert {*study.variants} == {f"{policy}{multiple}" for policy in policies for multiple in ("", "_2x")} | {
        "tf32",
        "planted_loss",
    }
    printed = capfd.readouterr().out
    assert "mixed_bfloat16: stubborn: computes in float32, whatever the policy" in printed
    assert "48 images at batch 8 and 16, about " in printed
    assert (project / "params.before.yaml").read_bytes() == before

    edited = (project / "params.yaml").read_text().replace("num_epochs: 5", "num_epochs: 9")
    (project / "params.yaml").write_text(edited)
    assert ask(**asked).benchmarks[YOURS].num_epochs == 9
    monkeypatch.setattr(stage, "ask_of_model", lambda *_: dict.fromkeys("abc", (1.0, 0.001)))
    assert ask(**asked, image_size=16).benchmarks[YOURS].image_size == 16
    assert ask(**asked).benchmarks[YOURS].image_size == 8, "without the option, as if it had never been given"


@pytest.mark.usefixtures("project")
def test_advise_uses_the_whole_data_set_even_after_a_small_study(monkeypatch):
    def origin(*_: object) -> Path:
        asked.append(_[1])
        return Path("data")

    asked: list = []
    monkeypatch.setattr(stage, "prepare_arrays", origin)
    monkeypatch.setattr(stage, "call", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(stage, "ask_of_model", lambda *_: dict.fromkeys("abc", (1.0, 0.001)))
    stage.replace_params(stage_compose.text_of(["profile=quick"], small=True))
    assert load_study().datasets["mnist"].train == "train[:64]"
    assert (asked_for := ask().datasets["mnist"]) == asked[0]
    assert (asked_for.train, asked_for.test) == ("train", "test")


@pytest.mark.parametrize(("kernels", "slow"), [("Eigen", "mixed_bfloat16"), ("oneDNN", "mixed_float16")])
def test_mixtures_are_of_the_fastest_policy_that_the_baselines_library_computes(kernels, slow):
    of = {"float32": "oneDNN", "mixed_float16": kernels, "mixed_bfloat16": "oneDNN"}
    speeds = {"mixed_float16": between(0.32, 0.46), "mixed_bfloat16": between(0.30, 0.45)}
    tables = Tables(
        [run(name, 0, benchmark=YOURS, kernels=library) for name, library in of.items()],
        [pair(benchmark=YOURS, candidate=name, speedup=speed) for name, speed in speeds.items()],
    )
    assert slow_policy(Study.model_validate(PROFILE).without({"tf32": ""}), tables) == slow


def test_non_square_images_need_an_image_size():
    model = {"name": "dense", "units": 8, "source": "pipeline/models/dense.py"}
    asked = {"dataset": "mnist", "model": model, "batch_size": 64}
    description = {"num_train_examples": 60_000, "image_shape": [16, 256, 1]}
    with pytest.raises(InputError, match=r"have 16 × 256 pixels, .* the longer side keeps 6% of its pixels; with 256,"):
        propose(PROFILE, asked, {"bundled": "mnist"}, description)
    assert propose(PROFILE, asked | {"image_size": 64}, {"bundled": "mnist"}, description)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 40}, "mixed_bfloat16_2x is more than the 54 training examples"),
        ({"model": "lost:build"}, "lost.py does not exist"),
        ({"model": "dense", "arguments": {"unit": 8}}, "unknown key. Did you mean 'units'?"),
        ({"dataset": "Not A Name"}, "--dataset Not A Name: 1 fault"),
        ({"recipe": {"num_epochs": 2, "batch_size": 16}}, "--recipe: batch_size can't be part of it"),
    ],
)
def test_bad_input_is_refused_and_leaves_params_yaml_unchanged(project, changes, words):
    before = (project / "params.yaml").read_bytes()
    with pytest.raises(InputError) as raised:
        ask(**changes)
    assert words in str(raised.value)
    assert (project / "params.yaml").read_bytes() == before


@pytest.mark.parametrize("arguments", [["--batch", "0"], ["--arguments", "[1]"]])
def test_bad_arguments_are_refused(arguments):
    done = projects.stage(REPOSITORY, "advise", "--model", "dense", "--dataset", "mnist", *arguments)
    assert done.returncode == 2
    assert f"Received: {arguments[1]}" in done.stderr


PROFILE = yaml.safe_load((REPOSITORY / "conf" / "profile" / "yours.yaml").read_text())


def fixed_seconds(start: float, num_multiples: int) -> float:
    """Return the seconds that three policies take at five seeds and in three launches, besides training."""
    return 3 * num_multiples * (TRACING * start + PROCESS_SECONDS) * 8 + PROFILE["speed"]["budget_seconds"]


def chosen(start: float, step: float, max_images: int = 48_000) -> Size:
    """The size for a model that takes so many seconds to start, and for a further step of 64 images."""
    seconds = dict.fromkeys("abc", (start, step))
    return choose_size(Study.model_validate(PROFILE), seconds, batch_size=64, max_images=max_images)


def test_a_fast_model_trains_on_every_image_at_both_batch_sizes():
    size = chosen(1.0, 0.001, max_images=6400)
    assert size[:2] == (6400, (1, 2))
    # 6,400 images in 3 policies, 2 batches and 5 seeds, and 3 runs of the control, for 5 epochs, 0.001 s for 64 images.
    assert size.seconds == pytest.approx(fixed_seconds(1.0, 2) + 6400 / 64 * 0.001 * (3 * 2 * 5 + 3) * 5)


def test_a_slower_model_trains_on_as_many_images_as_time_allows():
    size = chosen(2.0, 0.02)
    assert size.multiples == (1, 2)
    assert size.num_images % 128 == 0
    assert STUDY_SECONDS - 128 / 64 * 0.02 * 165 <= size.seconds <= STUDY_SECONDS


def test_the_double_batch_is_left_out_if_it_takes_too_long():
    size = chosen(8.0, 0.1)
    assert size.multiples == (1,)
    assert 640 <= size.num_images < 48_000
    assert size.seconds <= STUDY_SECONDS


def test_a_model_too_slow_for_the_time_limit_gets_the_smallest_study():
    assert chosen(60.0, 3.0) == Size(640, (1,), pytest.approx(fixed_seconds(60.0, 1) + 10 * 3.0 * (3 * 5 + 3) * 5))


def test_a_smaller_split_is_listed_as_a_deviation():
    model = {"name": "dense", "units": 8, "source": "pipeline/models/dense.py"}
    asked = {"dataset": "mnist", "model": model, "batch_size": 64}
    description = {"num_train_examples": 60_000, "image_shape": [28, 28, 1]}
    study = propose(PROFILE, asked, {"bundled": "mnist"}, description, size=Size(640, (1,), 900.0))
    assert study.benchmarks[YOURS].split.num_train_examples == 640
    assert {variant.batch_multiplier for variant in study.variants.values()} == {1}
    words = yaml.safe_dump(study.deviations[YOURS], width=1000)
    assert "640 images for training and 640 for validation" in words
    assert "Twice the batch is left out" in words
