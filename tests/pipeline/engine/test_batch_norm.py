"""TensorFlow's fused batch norm gives the same results as Keras's own, except for rounding.

Per channel 504 values are normalised, so that the kernel's own variance, of 503, would be further off than rounding.
"""

import functools

import numpy as np
import pytest

from pipeline import engine

# isort: split
import keras
import tensorflow as tf

from pipeline.study.policies import POLICIES

SHAPE = (8, 9, 7, 24)
OURS, KERAS = engine.BatchNormalization, keras.layers.BatchNormalization


def rounding(dtype: str) -> float:
    """Return the most that two neighbours of a dtype are apart, relatively; float32's are in the 1e-5."""
    return {"float32": 0.0, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]


def assert_equal_but_for_rounding(found: tf.Tensor, expected: tf.Tensor) -> None:
    """1e-5 of the largest, and beyond that the rounding of the type: a neighbour."""
    assert found.dtype == expected.dtype
    narrow = rounding(expected.dtype.name)
    found, expected = (tf.cast(tensor, "float32").numpy() for tensor in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=narrow, atol=1e-5 * np.abs(expected).max())


def random_layer(kind: type, policy: str) -> keras.layers.Layer:
    rng = np.random.default_rng(1)
    layer = kind(momentum=0.8, dtype=policy)
    layer.build((None, *SHAPE[1:]))
    layer.set_weights([rng.uniform(0.5, 2.0, SHAPE[-1]) for _ in range(4)])
    return layer


def two_steps(kind: type, policy: str, training: bool, jit_compile: bool) -> dict[str, tf.Tensor]:
    """Outputs, gradients and moving averages of a layer after two batches."""
    layer = random_layer(kind, policy)
    rng = np.random.default_rng(0)
    centre, spread = rng.uniform(-3, 3, SHAPE[-1]), rng.uniform(0.1, 3, SHAPE[-1])
    weights = rng.normal(size=SHAPE).astype("float32")

    @functools.partial(tf.function, jit_compile=jit_compile)
    def step(images: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            tape.watch(images)
            outputs = layer(images, training=training)
            loss = tf.reduce_sum(tf.cast(outputs, "float32") * weights)
        return outputs, tape.gradient(loss, [images, *(variable.value for variable in layer.trainable_variables)])

    for _ in range(2):
        images = tf.constant(rng.normal(centre, spread, SHAPE), layer.compute_dtype)
        outputs, (of_images, *of_variables) = step(images)
    averages = [tf.convert_to_tensor(variable) for variable in layer.non_trainable_variables]
    names = ("outputs", "of images", "of gamma", "of beta", "mean", "variance")
    return dict(zip(names, [outputs, of_images, *of_variables, *averages], strict=True))


@pytest.mark.parametrize(
    ("policy", "training", "jit_compile"),
    [
        *((name, True, False) for name, policy in POLICIES.items() if policy.keras == name),
        ("float32", False, False),
        ("mixed_float16", True, True),
    ],
)
def test_outputs_gradients_and_averages_match_keras(policy, training, jit_compile):
    ours, theirs = (two_steps(kind, policy, training, jit_compile) for kind in (OURS, KERAS))
    for name, expected in theirs.items():
        assert_equal_but_for_rounding(ours[name], expected)
    start = random_layer(KERAS, policy).moving_variance
    moved = not np.array_equal(ours["variance"].numpy(), start.numpy())
    assert moved is training


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_one_fused_kernel_takes_16_bit_inputs_and_float32_statistics(policy):
    layer = random_layer(OURS, policy)
    traced = tf.function(lambda images: layer(images, training=True))
    graph = traced.get_concrete_function(tf.TensorSpec((None, *SHAPE[1:]), layer.compute_dtype)).graph
    (kernel,) = (operation for operation in graph.get_operations() if operation.type == "FusedBatchNormV3")
    assert kernel.inputs[0].dtype.name == layer.compute_dtype
    assert {tensor.dtype.name for tensor in (*kernel.inputs[1:], *kernel.outputs[1:])} == {"float32"}
    assert {variable.dtype for variable in layer.variables} == {"float32"}
