"""Policies: which dtype a model computes in and which its variables have; and loss scales."""

from collections.abc import Iterator
from typing import NamedTuple

import keras

from pipeline.variant import LossScale


class Dtypes(NamedTuple):
    compute: str
    variable: str
    output: str


def expected_dtypes(policy: str) -> Dtypes:
    """The dtypes of a model under `policy` whose output layer is float32."""
    compute = policy.removeprefix("mixed_")
    return Dtypes(compute, "float32" if policy.startswith("mixed_") else compute, "float32")


def observed_dtypes(model: keras.Model, output_dtype: str) -> Dtypes:
    """The dtypes `model` really has, read off the layers that own trainable weights; several are joined with "+".

    `output_dtype` is that of a prediction it made.
    """
    layers = list(_layers_with_weights(model))
    return Dtypes(
        compute="+".join(sorted({str(layer.compute_dtype) for layer in layers})),
        variable="+".join(sorted({str(weight.dtype) for layer in layers for weight in layer.trainable_weights})),
        output=output_dtype,
    )


def scaled(optimizer: keras.optimizers.Optimizer, loss_scale: LossScale) -> keras.optimizers.Optimizer:
    """`optimizer` under a loss scale: with all three, `scale_loss` scales and `apply_gradients` unscales.

    The model must be compiled with `auto_scale_loss=False`, or Keras drops a fixed scale and adds a dynamic one.
    """
    if loss_scale.mode == "dynamic":
        return keras.optimizers.LossScaleOptimizer(
            optimizer, initial_scale=loss_scale.initial, dynamic_growth_steps=loss_scale.growth_steps
        )
    if loss_scale.mode == "fixed":
        optimizer.loss_scale_factor = loss_scale.value
    return optimizer


def loss_scale_now(optimizer: keras.optimizers.Optimizer) -> float | None:
    """By what the loss is multiplied now, or None where it is not scaled."""
    scale = getattr(optimizer, "dynamic_scale", None)
    if scale is None:
        scale = optimizer.loss_scale_factor
    return None if scale is None else float(keras.ops.convert_to_numpy(scale))


def _layers_with_weights(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    parts = getattr(layer, "layers", [])
    for part in parts:
        yield from _layers_with_weights(part)
    if not parts and layer.trainable_weights:
        yield layer
