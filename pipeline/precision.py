"""Policies: which dtype a model computes in and which its variables have."""

from collections.abc import Iterator
from typing import NamedTuple

import keras


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


def _layers_with_weights(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    parts = getattr(layer, "layers", [])
    for part in parts:
        yield from _layers_with_weights(part)
    if not parts and layer.trainable_weights:
        yield layer
