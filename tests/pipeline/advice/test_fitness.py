"""A model before it is trained: what can't be trained is refused, and what 16 bits do not suit is named."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
from conftest import REPOSITORY, benchmark, small_study

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
from keras import layers

from pipeline.advice.fitness import examine, look
from pipeline.errors import InputError
from pipeline.models import dense, efficientnet
from pipeline.study.schema import Study
from stages.train import check_model

NUM_CLASSES, SHAPE = 10, (32, 32, 3)
IMAGES = np.random.default_rng(0).random((16, *SHAPE), dtype=np.float32)


def check(make: Callable[[], keras.Model], policy: str) -> list[str]:
    """What is said of the model, whose weights are always the same."""
    keras.utils.set_random_seed(0)
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = make()
    finally:
        keras.config.set_dtype_policy(previous)
    return examine(model, policy, IMAGES)


def network(*parts: layers.Layer, head: tuple[layers.Layer, ...] = ()) -> keras.Model:
    """These layers one after the other, and a head in float32 where none is given."""
    usual = (layers.Dense(NUM_CLASSES), layers.Activation("softmax", dtype="float32"))
    return keras.Sequential([keras.Input(SHAPE), *parts, *(head or usual)])


def transformer() -> keras.Model:
    """Pre-norm attention and a feed-forward part on rows of pixels."""
    inputs = keras.Input(SHAPE)
    x = layers.Dense(32)(layers.Reshape((32, 96))(inputs))
    normal = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(num_heads=2, key_dim=16)(normal, normal)])
    wide = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x))
    x = layers.Add()([x, layers.Dense(32)(layers.Dropout(0.1)(wide))])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Activation("softmax", dtype="float32")(layers.Dense(NUM_CLASSES)(x)))


def mobile_net() -> keras.Model:
    body = keras.applications.MobileNetV2(weights=None, include_top=False, pooling="avg", input_shape=SHAPE)
    return network(body)


def efficient_net() -> keras.Model:
    return efficientnet.build(
        num_classes=NUM_CLASSES, image_shape=SHAPE, depth=0.1, batch_norm=engine.BatchNormalization
    )


@pytest.mark.parametrize(
    "make",
    [lambda: dense.build(num_classes=NUM_CLASSES, image_shape=SHAPE, units=64), efficient_net, transformer, mobile_net],
)
def test_a_healthy_model_has_no_finding(make):
    for policy in ("float32", "mixed_float16", "mixed_bfloat16"):
        assert check(make, policy) == []


class Block(layers.Layer):
    """A layer inside a layer, which no list of a model's layers shows."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return self.inner(x)


def units(name: str, **options) -> layers.Dense:
    return layers.Dense(NUM_CLASSES, name=name, **options)


def flat(*parts: layers.Layer, head: tuple[layers.Layer, ...] = ()) -> keras.Model:
    return network(layers.AveragePooling2D(4), layers.Flatten(), units("first"), *parts, units("last"), head=head)


def nested() -> keras.Model:
    inner = keras.Sequential([keras.Input((10,)), units("stubborn", dtype="float32"), units("after")])
    return flat(keras.Sequential([keras.Input((10,)), inner]))


def narrow_then_cast() -> keras.Model:
    head = (units("narrow", activation="softmax"), layers.Activation("linear", dtype="float32"))
    return flat(head=head)


@pytest.mark.parametrize(
    ("make", "finding"),
    [
        (lambda: flat(head=(units("head", activation="softmax"),)), "head: the probabilities"),
        (lambda: flat(head=(units("logits"),)), "logits: the probabilities"),
        (narrow_then_cast, "narrow: the probabilities"),
        (lambda: flat(units("stubborn", dtype="float32")), "stubborn: computes in"),
        (nested, "stubborn: computes in"),
        (lambda: flat(Block(units("stubborn", dtype="float32"))), "stubborn: computes in"),
    ],
    ids=["softmax that follows the policy", "logits", "cast afterwards", "a layer", "in a model", "in a layer"],
)
def test_a_planted_fault_is_found_and_nothing_else(make, finding):
    for policy in ("mixed_float16", "mixed_bfloat16"):
        (found,) = check(make, policy)
        assert found.startswith(finding)
    assert check(make, "float32") == []


@pytest.mark.parametrize(
    ("dtypes", "head", "named"),
    [
        (["float32"] * 4 + [None], "float32", [0, 1, 2, 3]),
        (["float32"] * 4, None, [0, 1, 2, 3]),  # only the head follows
        ([None] + ["float32"] * 4, "float32", [1, 2, 3, 4]),
        ([None] * 4, "float32", []),
    ],
)
def test_kernels_before_and_after_what_follows_the_policy_are_found_but_for_the_head(dtypes, head, named):
    def make():
        kernels = [layers.Conv2D(8, 3, dtype=dtype, name=f"conv_{index}") for index, dtype in enumerate(dtypes)]
        last = (units("head", dtype=head), layers.Activation("softmax", dtype="float32"))
        return network(*kernels, layers.GlobalAveragePooling2D(dtype=dtypes[-1]), head=last)

    findings = check(make, "mixed_float16")
    assert [finding.partition(":")[0] for finding in findings] == [", ".join(f"conv_{i}" for i in named)] * bool(named)


def test_a_look_times_each_policy_at_the_batch_of_the_study():
    seen = look(small_study(), "wide", (8, 8, 1), num_classes=10)
    assert list(seen) == ["float32", "mixed_bfloat16"]
    assert all(start_seconds > step_seconds > 0 for start_seconds, step_seconds in seen.values())


GOOD = """
import keras

def build(spec):
    return keras.Sequential([
        keras.Input(spec.image_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(spec.num_classes),
        keras.layers.Activation("softmax", dtype="float32"),
    ])
"""
ADAM = {"optimizer": {"name": "adam", "learning_rate": 0.1, "arguments": {"momentumm": 1}}}


@pytest.fixture
def prepare(workspace, monkeypatch):
    """Runs the stage before training on a model of one's own, in a module of a name never used."""
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("Dockerfile", "pipeline", "requirements", "stages"):
        (workspace / name).symlink_to(REPOSITORY / name)

    def run(module: str, code: str = GOOD, **changes) -> None:
        (workspace / f"{module}.py").write_text(code)
        recipe = benchmark(units=8, model={"name": f"{module}:build", "source": f"{module}.py"}, **changes)
        study = small_study().model_dump(mode="json", exclude_defaults=True)
        values = study | {"benchmarks": study["benchmarks"] | {"wide": recipe}}
        check_model(Study.model_validate(values), "wide")

    return run


@pytest.mark.parametrize(
    ("module", "code", "changes", "words"),
    [
        ("fit_exit", "raise SystemExit(0)", {}, "fit_exit:build ends the process when it is imported or called"),
        ("fit_alone", GOOD, ADAM, "adam takes no momentumm"),
        ("fit_net", "import fit_blocks" + GOOD, {}, r"imports fit_blocks.py, which lies beside fit_net.py"),
    ],
)
def test_what_cannot_be_trained_is_named(workspace, prepare, module, code, changes, words):
    (workspace / "fit_blocks.py").touch()
    with pytest.raises(InputError, match=words):
        prepare(module, code, **changes)


def test_a_good_model_passes(prepare):
    prepare("fit_good")
