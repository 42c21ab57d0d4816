"""Build a model with a function that the user wrote."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from pipeline import engine
from pipeline.errors import InputError
from pipeline.study import user_code
from pipeline.study.benchmark import Imported


@dataclass(frozen=True)
class ModelSpec:
    """Tell a user's `build(spec)` which model is wanted.

    It returns a functional or Sequential `keras.Model` from float32 images (N, *image_shape) in [0, 1] to float32
    probabilities (N, num_classes). Its layers follow Keras's global dtype policy, which is set to the variant's while
    `build` runs; the last one says `dtype="float32"`. Keras's random state is seeded before.

    Attributes:
        image_shape: height, width and channels.
        num_classes: of the data set, at least 2.
        seed: of the run.
        arguments: what the study says under `model.arguments`.
    """

    image_shape: tuple[int, int, int]
    num_classes: int
    seed: int
    arguments: Mapping[str, Any]


def build(model: Imported, spec: ModelSpec) -> keras.Model:
    """Return the model that the user's function builds for `spec`.

    Raises:
        InputError: it can't be imported or called, or what it returns does not fit `spec`.
    """
    module = user_code.load_module(model.module, Path(model.source))
    function = getattr(module, model.function, None)
    if not callable(function):
        raise InputError(f"{module.__file__} has no function {model.function}, which {model.name} names")
    try:
        inspect.signature(function).bind(spec)
    except TypeError:
        raise InputError(
            f"{model.name} must take one argument, a ModelSpec. Received: {inspect.signature(function)}"
        ) from None
    try:
        network = function(spec)
    except InputError:
        raise
    except Exception as error:  # whatever the user's code raises
        if engine.is_out_of_memory(error):  # which is an outcome
            raise
        raise InputError(f"{model.name} failed for {spec}: {type(error).__name__}: {error}") from error
    _check(model.name, network, spec)
    return keras.Model(network.inputs, network.outputs, name=network.name)  # a Sequential becomes functional


def _check(name: str, network: Any, spec: ModelSpec) -> None:
    if not isinstance(network, keras.Model):
        raise InputError(f"{name} must return a keras.Model. Received: {type(network).__name__}")
    if not isinstance(network, keras.Sequential | keras.src.models.functional.Functional) or not network.built:
        raise InputError(
            f"{name} must return a functional or Sequential model with a keras.Input. "
            f"Received: {type(network).__name__}, which does not say its shapes"
        )
    for what, tensors, shape in (
        ("take images", network.inputs, spec.image_shape),
        ("return probabilities", network.outputs, (spec.num_classes,)),
    ):
        found = [tuple(tensor.shape) for tensor in tensors]
        if len(found) != 1 or len(found[0]) != 1 + len(shape) or not _fits(found[0][1:], shape):
            raise InputError(f"{name} must {what} of shape {(None, *shape)}. Received: {', '.join(map(str, found))}")
    dtype = network.outputs[0].dtype
    if dtype != "float32":
        raise InputError(f'{name} must return float32: give its last layer dtype="float32". Received: {dtype}')


def _fits(found: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return all(size in (None, wanted) for size, wanted in zip(found, shape, strict=True))
