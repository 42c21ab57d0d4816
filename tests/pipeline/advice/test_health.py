"""The rules of health: each planted fault is found, and nothing else; healthy models have none."""

from collections.abc import Callable

import numpy as np
import pytest
from conftest import small_study

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
from keras import layers

from pipeline.advice.fitness import examine, look
from pipeline.models import dense, efficientnet

NUM_IMAGES, NUM_CLASSES = 16, 10
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
IMAGES = np.random.default_rng(0).random((NUM_IMAGES, 32, 32, 3), dtype=np.float32)
Body = Callable[[keras.KerasTensor], keras.KerasTensor]


def under(make: Callable[[], keras.Model]) -> Callable[[str], keras.Model]:
    """A function from a policy to the model, its weights always the same."""

    def build(policy: str) -> keras.Model:
        keras.utils.set_random_seed(0)
        previous = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            return make()
        finally:
            keras.config.set_dtype_policy(previous)

    return build


def model(body: Body, head: Body | None = None) -> keras.Model:
    inputs = keras.Input(IMAGES.shape[1:])
    x = body(inputs)
    outputs = head(x) if head else layers.Activation("softmax", dtype="float32")(layers.Dense(NUM_CLASSES)(x))
    return keras.Model(inputs, outputs)


def check(make: Callable[[], keras.Model], policy: str) -> list[str]:
    return examine(under(make)(policy), policy, IMAGES)


def pooled(x):
    return layers.Flatten()(layers.AveragePooling2D(4)(x))


def transformer() -> keras.Model:
    """Pre-norm attention and a feed-forward part on rows of pixels."""

    def body(x):
        x = layers.Dense(32)(layers.Reshape((32, 96))(x))
        normal = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(num_heads=2, key_dim=16)(normal, normal)])
        wide = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(32)(layers.Dropout(0.1)(wide))])
        return layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))

    return model(body)


def application(name: str) -> keras.Model:
    def body(x):
        return getattr(keras.applications, name)(weights=None, include_top=False, pooling="avg", input_tensor=x).output

    return model(body)


HEALTHY = {
    "dense": lambda: dense.build(num_classes=NUM_CLASSES, image_shape=(32, 32, 3), units=64),
    "efficientnet": lambda: efficientnet.build(
        num_classes=NUM_CLASSES, image_shape=(32, 32, 3), depth=0.1, batch_norm=engine.BatchNormalization
    ),
    "transformer": transformer,
    "MobileNetV2": lambda: application("MobileNetV2"),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_model_has_no_finding(name):
    for policy in POLICIES:
        assert check(HEALTHY[name], policy) == []


class Block(layers.Layer):
    """A layer inside a layer, which no list of a model's layers shows."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return self.inner(x)


def chain(*parts) -> Body:
    def body(x):
        x = layers.Dense(64, activation="relu")(pooled(x))
        for part in parts:
            x = part()(x)
        return layers.Dense(64)(x)

    return body


NO_HEAD = layers.Identity()
# What is said, of which layer, and a model made so.
PLANTED = {
    "softmax that follows the policy": (
        "the probabilities", "probabilities",
        lambda: model(chain(), layers.Dense(NUM_CLASSES, activation="softmax", name="probabilities")),
    ),
    "logits in 16 bits as output": (
        "the probabilities", "probabilities", lambda: model(chain(), layers.Dense(NUM_CLASSES, name="probabilities")),
    ),
    "softmax in 16 bits, cast afterwards": (
        "the probabilities", "narrow",
        lambda: model(
            chain(),
            lambda x: layers.Activation("linear", dtype="float32")(
                layers.Dense(NUM_CLASSES, activation="softmax", name="narrow")(x)
            ),
        ),
    ),
    "dense layer in float32": (
        "computes in", "stubborn", lambda: model(chain(lambda: layers.Dense(64, dtype="float32", name="stubborn"))),
    ),
    "dense layer in float32 inside a model inside a model": (
        "computes in",
        "stubborn",
        lambda: model(lambda x: model(chain(lambda: layers.Dense(64, dtype="float32", name="stubborn")), NO_HEAD)(x)),
    ),
    "dense layer in float32 inside a layer": (
        "computes in", "stubborn",
        lambda: model(chain(lambda: Block(layers.Dense(64, dtype="float32", name="stubborn")))),
    ),
}  # fmt: skip


def convolutions(*dtypes: str | None) -> Body:
    def body(x):
        for index, dtype in enumerate(dtypes):
            x = layers.Conv2D(8, 3, dtype=dtype, name=f"convolution_{index}")(x)
        return layers.GlobalAveragePooling2D(dtype=dtypes[-1])(x)

    return body


def float32_head(x):
    return layers.Dense(NUM_CLASSES, activation="softmax", dtype="float32")(x)


@pytest.mark.parametrize(
    ("dtypes", "head", "named"),
    [
        (["float32"] * 4 + [None], float32_head, [0, 1, 2, 3]),
        (["float32"] * 4, None, [0, 1, 2, 3]),  # only the head follows
        ([None] + ["float32"] * 4, float32_head, [1, 2, 3, 4]),
        ([None] * 4, float32_head, []),
    ],
)
def test_kernels_before_and_after_what_follows_the_policy_are_found_but_for_the_head(dtypes, head, named):
    findings = check(lambda: model(convolutions(*dtypes), head), "mixed_float16")
    assert [finding.partition(":")[0] for finding in findings] == [
        ", ".join(f"convolution_{index}" for index in named)
    ] * bool(named)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_and_nothing_else(name):
    words, layer, make = PLANTED[name]
    for policy in ("mixed_float16", "mixed_bfloat16"):
        (finding,) = check(make, policy)
        assert finding.startswith(f"{layer}: {words}")
    assert check(make, "float32") == []


def test_a_first_look_times_each_policy_at_the_batch_of_the_study():
    seen = look(small_study(), "wide", (8, 8, 1), num_classes=10)
    assert list(seen) == ["float32", "mixed_bfloat16"]
    assert all(start_seconds > step_seconds > 0 for start_seconds, step_seconds in seen.values())
