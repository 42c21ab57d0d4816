"""The health check: each planted fault is found, and nothing else; healthy models have none."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import small_study

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
from keras import layers, ops

from pipeline.errors import InputError
from pipeline.health.check import HealthCheck
from pipeline.health.findings import REMEDIES
from pipeline.models import dense, efficientnet
from stages import examine

NUM_IMAGES, NUM_CLASSES = 16, 10
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
IMAGES = np.random.default_rng(0).random((NUM_IMAGES, 32, 32, 3), dtype=np.float32)
LABELS = np.arange(NUM_IMAGES) % NUM_CLASSES
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


def check(make: Callable[[], keras.Model], **arguments) -> HealthCheck:
    return HealthCheck(under(make), IMAGES, LABELS, **arguments)


def found(make: Callable[[], keras.Model], policy: str, **arguments) -> list[str]:
    return [finding.rule for finding in check(make, **arguments).examine(policy).findings]


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
    "ResNet50V2": lambda: application("ResNet50V2"),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_model_has_no_finding(name):
    health = check(HEALTHY[name], batch_size=128, multiple=8)
    for policy in POLICIES:
        seen = health.examine(policy)
        assert seen.findings == []
        assert 0 < seen.largest_activation < 100
        assert (seen.flushed_share is not None) == (policy == "mixed_float16")


class RootMeanSquare(layers.Layer):
    """A norm that computes in whatever type it gets."""

    def call(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + 1e-8)


class Length(layers.Layer):
    """Adds the length of each vector, which may fit in float16 where its square does not."""

    def call(self, x):
        return x + ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True))


class Widening(layers.Layer):
    """What `add_weight` keeps in float32 is not cast here, so that the product is float32."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", autocast=False)

    def call(self, x):
        return ops.cast(x, "float32") * self.scale


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


def sigmoids(x):
    x = pooled(x)
    for _ in range(40):
        x = layers.Dense(32, activation="sigmoid")(x)
    return x


# Rule, the layer it names or None, and a model made to break it.
PLANTED = {
    "softmax that follows the policy": (
        "output_dtype", "probabilities",
        lambda: model(chain(), layers.Dense(NUM_CLASSES, activation="softmax", name="probabilities")),
    ),
    "logits in 16 bits as output": (
        "output_dtype", "probabilities", lambda: model(chain(), layers.Dense(NUM_CLASSES, name="probabilities")),
    ),
    "softmax in 16 bits, cast afterwards": (
        "softmax_dtype", "narrow",
        lambda: model(
            chain(),
            lambda x: layers.Activation("linear", dtype="float32")(
                layers.Dense(NUM_CLASSES, activation="softmax", name="narrow")(x)
            ),
        ),
    ),
    "batch norm of 16 bits": (
        "batch_norm_variables", "norm",
        lambda: model(chain(lambda: layers.BatchNormalization(dtype="float16", name="norm"))),
    ),
    "dense layer in float32": (
        "own_dtype", "stubborn", lambda: model(chain(lambda: layers.Dense(64, dtype="float32", name="stubborn"))),
    ),
    "dense layer in float32 inside a layer": (
        "own_dtype", "stubborn",
        lambda: model(chain(lambda: Block(layers.Dense(64, dtype="float32", name="stubborn")))),
    ),
    "lambda that casts to float32": (
        "returned_dtype", "cast",
        lambda: model(
            chain(lambda: layers.Lambda(lambda x: ops.cast(x, "float32"), output_shape=lambda s: s, name="cast"))
        ),
    ),
    "own layer with a float32 weight": (
        "returned_dtype", "widening", lambda: model(chain(lambda: Widening(name="widening"))),
    ),
    "epsilon 1e-8 in float16": (
        "vanishing_epsilon", "norm", lambda: model(chain(lambda: RootMeanSquare(name="norm"))),
    ),
    "Keras's unit normalization, epsilon 1e-12": (
        "vanishing_epsilon", "norm", lambda: model(chain(lambda: layers.UnitNormalization(name="norm"))),
    ),
    "activations of a million": (
        "float16_range", "large",
        lambda: model(chain(lambda: layers.Rescaling(1e6, name="large"), layers.LayerNormalization)),
    ),
    "sum of squares beyond the range": (
        "not_finite", "length",
        lambda: model(
            chain(lambda: layers.Rescaling(100.0), lambda: Length(name="length"), layers.LayerNormalization)
        ),
    ),
    "forty sigmoids": ("gradient_underflow", None, lambda: model(sigmoids)),
    "63 units": ("narrow_shapes", "odd", lambda: model(chain(lambda: layers.Dense(63, name="odd")))),
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
    findings = check(lambda: model(convolutions(*dtypes), head)).examine("mixed_float16").findings
    assert [finding.rule for finding in findings] == ["own_dtype"] * bool(named)
    assert [name for finding in findings for name in finding.layers] == [f"convolution_{index}" for index in named]


def test_a_kernel_is_found_in_a_layer_with_another_inside():
    def stubborn(x):
        activation = layers.ReLU(dtype="float32")
        return chain()(layers.Conv2D(8, 3, dtype="float32", activation=activation, name="stubborn")(x))

    (finding,) = check(lambda: model(stubborn)).examine("mixed_float16").findings
    assert (finding.rule, finding.layers) == ("own_dtype", ["stubborn"])


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_and_nothing_else(name):
    rule, layer, make = PLANTED[name]
    health = check(make, multiple=8)
    (finding,) = health.examine("mixed_float16").findings
    assert finding.rule == rule
    if layer:
        assert layer in finding.layers
    if rule != "batch_norm_variables":  # 16 bits whatever the policy
        assert health.examine("float32").findings == []


def test_no_rule_is_without_a_planted_fault():
    assert {rule for rule, _, _ in PLANTED.values()} | {"optimizer_constant"} == set(REMEDIES)


def test_an_optimizers_constants_are_looked_at_where_its_variables_are_narrow():
    def compiled(**options):
        def make():
            network = model(chain())
            network.compile(keras.optimizers.Adam(**options), "sparse_categorical_crossentropy")
            return network

        return make

    for policy, faulty, mended in (
        ("float16", {}, {"epsilon": 1e-4}),
        ("bfloat16", {}, {"beta_2": 0.99}),
    ):
        assert found(compiled(**faulty), policy) == ["optimizer_constant"]
        assert found(compiled(**mended), policy) == []
        assert found(compiled(**faulty), f"mixed_{policy}") == []


def test_what_bfloat16_can_take_is_not_reported():
    """The range of float32: only digits are lost."""
    for name in ("epsilon 1e-8 in float16", "activations of a million", "forty sigmoids"):
        assert found(PLANTED[name][2], "mixed_bfloat16") == []


def test_widths_matter_only_where_the_device_gains():
    assert found(PLANTED["63 units"][2], "mixed_float16") == []
    assert found(HEALTHY["dense"], "mixed_float16", batch_size=100) == []
    assert found(HEALTHY["dense"], "mixed_float16", batch_size=100, multiple=8) == ["narrow_shapes"]


def test_models_that_change_with_the_policy_are_refused():
    def with_further(layer):
        return lambda: model(chain(*([] if keras.config.dtype_policy().name == "float32" else [layer])))

    for layer, what in ((layers.LayerNormalization, "weights"), (layers.ReLU, "layers")):
        with pytest.raises(InputError, match=f"the same {what} under mixed_float16 as under float32"):
            found(with_further(layer), "mixed_float16")


def test_examine_looks_at_the_optimizer_of_the_recipe(workspace, monkeypatch, capsys):
    variants = {name: {"policy": name, "batch_multiplier": 1} for name in ("float32", "float16", "mixed_float16")}
    study = small_study(variants=variants).model_dump(mode="json")
    (workspace / "params.yaml").write_text(yaml.safe_dump(study))
    monkeypatch.chdir(workspace)
    examine.main(argparse.Namespace(study=Path("params.yaml"), benchmark="wide", out=Path("health.jsonl")))
    seen = [json.loads(line) for line in Path("health.jsonl").read_text().splitlines()]
    found = {each["policy"]: [finding["rule"] for finding in each["findings"]] for each in seen}
    assert found == {"float32": [], "float16": ["optimizer_constant"], "mixed_float16": []}
    assert "Adam: epsilon 1e-07 is below 6.1e-05" in capsys.readouterr().out
