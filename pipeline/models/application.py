"""Offer the networks of `keras.applications` as functions that take a `ModelSpec`, with random initial weights."""

import functools
import inspect
from collections.abc import Callable

import keras
from keras import layers

from pipeline.models.imported import ModelSpec


def __getattr__(name: str) -> Callable[[ModelSpec], keras.Model]:
    """Return the function that builds the network of this name in `keras.applications`."""
    function = vars(keras.applications).get(name)
    if not inspect.isfunction(function):
        raise AttributeError(name)
    return functools.partial(_build, function)


def __dir__() -> list[str]:
    return [name for name, function in vars(keras.applications).items() if inspect.isfunction(function)]


def _build(function: Callable[..., keras.Model], spec: ModelSpec) -> keras.Model:
    """Build the network, from float images (N, H, W, C) in [0, 1] to float32 probabilities (N, num_classes).

    Every layer but the softmax follows Keras's global dtype policy. Networks that can leave out their own scaling of
    images leave it out by default. EfficientNet B0 to B7 can't, so a float32 layer scales their images to [0, 255].
    """
    name, arguments = function.__name__, dict(spec.arguments)
    if "include_preprocessing" in inspect.signature(function).parameters:
        arguments.setdefault("include_preprocessing", False)
    inputs = keras.Input(spec.image_shape)
    x = layers.Rescaling(255.0, dtype="float32")(inputs) if name.startswith("EfficientNetB") else inputs
    backbone = function(include_top=False, weights=None, input_tensor=x, pooling="avg", **arguments)
    x = layers.Dense(spec.num_classes)(backbone.output)
    outputs = layers.Activation("softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(inputs, outputs, name=name.lower())
