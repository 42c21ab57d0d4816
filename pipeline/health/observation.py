"""Observe every layer of a model on real images: dtypes, sizes, and how it copes with zeros."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np


class Call(NamedTuple):
    """One call of a layer, within which as many calls as `num_inside` came just before.

    `dtype` and `shape` are those of its first output that is a floating-point number. `survives_zeros` says whether it
    returns finite numbers for inputs that are all zero; None where that can't be tried, or a layer inside does not.
    """

    name: str
    layer: keras.layers.Layer
    dtype: str
    shape: tuple[int, ...]
    largest: float
    is_finite: bool
    survives_zeros: bool | None
    num_inside: int


def observe(model: keras.Model, images: np.ndarray) -> tuple[list[Call], np.ndarray]:
    """Return every call of a layer in one uncompiled training pass, inner layers before those around them.

    Also returns the model's output, in its own dtype. Batch norm's averages move: the model is one to throw away.
    """
    calls: list[Call] = []
    with _every_call_told_to(calls), np.errstate(over="ignore"):  # which is looked for, and no cause for a warning
        output = model(images, training=True)
    return calls, keras.ops.convert_to_numpy(output)


@contextlib.contextmanager
def _every_call_told_to(calls: list[Call]) -> Iterator[None]:
    """Replace what Keras does when any layer is called, because layers inside layers appear in no list."""
    original = keras.layers.Layer.__call__
    is_trying = False

    def call(layer: keras.layers.Layer, *arguments: Any, **options: Any) -> Any:
        nonlocal is_trying
        num_before = len(calls)
        outputs = original(layer, *arguments, **options)
        floats = [output for output in keras.tree.flatten(outputs) if _is_float(output)]
        if is_trying or not floats or isinstance(layer, keras.Model | keras.layers.InputLayer):
            return outputs
        inside = calls[num_before:]
        survives = None
        if all(inner.survives_zeros is not False for inner in inside):
            is_trying = True
            try:
                survives = _survives_zeros(original, layer, arguments, options)
            finally:
                is_trying = False
        values = [np.abs(keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))) for output in floats]
        calls.append(
            Call(
                name=layer.name,
                layer=layer,
                dtype=keras.backend.standardize_dtype(floats[0].dtype),
                shape=tuple(floats[0].shape),
                largest=max(float(value.max(initial=0.0)) for value in values),
                is_finite=all(bool(np.isfinite(value).all()) for value in values),
                survives_zeros=survives,
                num_inside=len(inside),
            )
        )
        return outputs

    keras.layers.Layer.__call__ = call
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = original


def _survives_zeros(
    original: Callable[..., Any], layer: keras.layers.Layer, arguments: Any, options: Any
) -> bool | None:
    def zeros(value: Any) -> Any:
        return keras.ops.zeros_like(value[:2]) if _is_float(value) else value

    try:
        outputs = original(
            layer, *keras.tree.map_structure(zeros, arguments), **keras.tree.map_structure(zeros, options)
        )
    except Exception:  # a layer of anyone's, given what it may not expect; its true inputs it has survived
        return None
    floats = [output for output in keras.tree.flatten(outputs) if _is_float(output)]
    return all(bool(np.isfinite(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))).all()) for x in floats)


def _is_float(value: Any) -> bool:
    return keras.ops.is_tensor(value) and "float" in keras.backend.standardize_dtype(value.dtype)
