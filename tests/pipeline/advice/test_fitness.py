"""Checks of a model before training: what can't be trained is refused, and what does not suit 16 bits is reported."""

import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from conftest import benchmark, small_study

from pipeline import engine  # noqa: F401  first: it silences the engine before Keras imports it

# isort: split
import keras
import numpy as np
from keras import layers

from pipeline.advice import fitness
from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import Study
from pipeline.training.building import build_model

NUM_CLASSES, SHAPE = 10, (32, 32, 3)


def check(make: Callable[[], keras.Model], policy: str) -> list[str]:
    """Return the sentences about the model."""
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = make()
    finally:
        keras.config.set_dtype_policy(previous)
    return list(fitness.examine(model, policy))


def network(*parts: layers.Layer) -> keras.Model:
    """These layers one after the other, and a head in float32."""
    head = (layers.Dense(NUM_CLASSES), layers.Activation("softmax", dtype="float32"))
    return keras.Sequential([keras.Input(SHAPE), *parts, *head])


def test_a_sound_model_gets_no_findings():
    model = {"name": "transformer", "width": 8, "num_blocks": 1, "source": "pipeline/models/transformer.py"}
    recipe = Benchmark.model_validate(benchmark(units=8, model=model, image_size=32))
    for policy in ("float32", "mixed_float16", "mixed_bfloat16"):
        assert list(fitness.examine(build_model(recipe, policy, NUM_CLASSES, 3, seed=0)[0], policy)) == []


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (layers.Dense(5), (4, 6), 4 * 6 * 5),
        (layers.Conv2D(5, 3, strides=2), (9, 9, 2), 4 * 4 * 3 * 3 * 2 * 5),
        (layers.DepthwiseConv2D(3), (5, 5, 2), 3 * 3 * 3 * 3 * 2),
        (
            layers.EinsumDense("abc,cde->abde", (None, 2, 3)),
            (4, 6),
            4 * 6 * 2 * 3,
        ),  # two heads
        (layers.EinsumDense("abcd,cde->abe", (None, 6)), (4, 2, 3), 4 * 2 * 3 * 6),
        (layers.BatchNormalization(), (4, 6), 0),
    ],
)
def test_multiply_adds_of_a_layer_are_those_by_hand(layer, shape, expected):
    assert fitness.multiply_adds(layer, layer(np.zeros((1, *shape), np.float32)).shape) == expected


class Block(layers.Layer):
    """A layer inside a layer, which no list of a model's layers shows."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return self.inner(x)


def units(name: str, **options) -> layers.Dense:
    return layers.Dense(NUM_CLASSES, name=name, **options)


def flat(*parts: layers.Layer) -> keras.Model:
    return network(layers.AveragePooling2D(4), layers.Flatten(), units("first"), *parts, units("last"))


def nested() -> keras.Model:
    inner = keras.Sequential([keras.Input((10,)), units("stubborn", dtype="float32"), units("after")])
    return flat(keras.Sequential([keras.Input((10,)), inner]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: flat(units("stubborn", dtype="float32")),
        nested,
        lambda: flat(Block(units("stubborn", dtype="float32"))),
        lambda: network(layers.Flatten(), units("stubborn", dtype="float32")),  # only the head follows
    ],
    ids=["a layer", "in a model", "in a layer", "all but the head"],
)
def test_only_the_planted_fault_is_found(make):
    for policy in ("mixed_float16", "mixed_bfloat16"):
        (found,) = check(make, policy)
        assert found.startswith("stubborn: computes in float32, whatever the policy.")
    assert check(make, "float32") == []


def test_look_times_the_start_and_a_step_of_each_policy():
    seen = fitness.look(small_study(), "wide", (8, 8, 1), num_classes=10)
    assert list(seen) == ["float32", "mixed_bfloat16"]
    assert all(start_seconds > step_seconds > 0 for start_seconds, step_seconds in seen.values())


@pytest.fixture
def study_of(tmp_path, monkeypatch):
    """A function that writes a module and returns a study of the model that its function `build` makes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(name: str, text: str, **changes) -> Study:
        Path(f"{name}.py").write_text(text)
        return small_study({"model": {"name": f"{name}:build", "source": f"{name}.py"}}, **changes)

    return write


LOGITS = """
import keras

def build(spec):
    layers = [keras.layers.Flatten(), keras.layers.Dense(spec.num_classes)]
    return keras.Sequential([keras.Input(spec.image_shape), *layers])
"""


def test_look_refuses_a_model_that_ends_in_logits(study_of):
    with pytest.raises(InputError, match="wide must return probabilities that sum to 1"):
        fitness.look(study_of("fit_logits", LOGITS), "wide", (8, 8, 1), NUM_CLASSES)


SKIP = """
import keras

class Skip(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.inner = keras.layers.Dense(units, name="inner")

    def call(self, x):
        return x + self.inner(x)

def build(spec):
    parts = [keras.layers.Flatten(), keras.layers.Dense(8), Skip(8), keras.layers.Dense(spec.num_classes)]
    return keras.Sequential([keras.Input(spec.image_shape), *parts, keras.layers.Softmax(dtype="float32")])
"""


def test_the_error_names_the_layer_that_fails_when_dtypes_are_mixed(study_of):
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}}
    variants["mixed"] = {"policy": "mixed_bfloat16", "batch_multiplier": 1, "float32_layers": ["Skip"]}
    fitness.check(study_of("fit_skip", SKIP, variants=variants), "wide", (8, 8, 1), NUM_CLASSES)
    variants["mixed"] |= {"float32_layers": ["inner"]}
    with pytest.raises(InputError, match=r"under mixed_bfloat16 with inner in float32: in Skip: .*Error"):
        fitness.check(study_of("fit_skip", SKIP, variants=variants), "wide", (8, 8, 1), NUM_CLASSES)


MODEL = """
import pathlib

import fit_blocks
import h5py
import keras

HERE = pathlib.Path(__file__).parent
WIDTH = (HERE / "fit_width.txt").read_text()
with h5py.File(HERE / "fit_weights.h5") as WEIGHTS:
    pass

def build(spec):
    return keras.Sequential([
        keras.Input(spec.image_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(spec.num_classes),
        keras.layers.Softmax(dtype="float32"),
    ])
"""


def test_a_model_that_reads_files_outside_its_source_is_refused(study_of):
    study = study_of("fit_net", MODEL)
    Path("fit_blocks.py").touch()
    Path("fit_width.txt").write_text("8")
    with h5py.File("fit_weights.h5", "w"):
        pass
    with pytest.raises(InputError, match=r"reads fit_blocks.py, fit_weights.h5, fit_width.txt, which is next to"):
        fitness.check(study, "wide", (8, 8, 1), NUM_CLASSES)


PENALTY = """
import keras
import numpy as np
from keras import layers

class Penalty(layers.Layer):
    def call(self, x):
        self.add_loss(0.01 * keras.ops.mean(keras.ops.square(x)))
        return x

def build(spec):
    images = keras.Input(spec.image_shape)
    x = Penalty()(layers.Dense(4, activation="relu")(layers.Flatten()(images)))
    return keras.Model(images, layers.Dense(spec.num_classes, activation="softmax", dtype="float32")(x))
"""


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="JAX adds a 16-bit loss to a float32 one")
def test_a_model_that_keras_cannot_train_under_a_policy_is_refused_before_training(study_of):
    study = study_of("fit_penalty", PENALTY)
    for look in (fitness.check, fitness.look):
        with pytest.raises(InputError, match="wide: Keras can't train this model under mixed_bfloat16: "):
            look(study, "wide", (8, 8, 1), NUM_CLASSES)
