"""Find the first layer of a diverged run whose values are not finite, in one pass over a few images."""

import contextlib
from collections.abc import Iterator
from typing import Any

from pipeline import engine  # first: it silences the engine before Keras imports it

# isort: split
import keras
import numpy as np

NUM_EXAMINED = 32  # images


def first_not_finite(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> str | None:
    """Name the first layer output that is not finite; if all outputs are finite, name the first gradient that is not.

    Args:
        model: compiled, with its weights from before it diverged.
        images: uint8 (N, h, w, C).
        labels: integer (N,).

    Returns:
        Words such as "the output of attend", or None if everything is finite.
    """
    found: list[str] = []
    with _watched(model, found):
        model(images[:NUM_EXAMINED], training=True)
    if found:
        return f"the output of {found[0]}"
    gradients = engine.gradients(model, images[:NUM_EXAMINED], labels[:NUM_EXAMINED])
    # Backwards, because the gradient of the last layer is computed first.
    for variable, gradient in reversed([*zip(model.trainable_variables, gradients, strict=True)]):
        if not _is_finite(gradient):
            return f"the gradient of {'/'.join(variable.path.split('/')[-2:])}"
    return None


@contextlib.contextmanager
def _watched(model: keras.Model, found: list[str]) -> Iterator[None]:
    """Add to `found` the name of each layer inside `model` that returns a value that is not finite."""

    def watch(layer: keras.layers.Layer, call: Any) -> Any:
        def watched(*arguments: Any, **options: Any) -> Any:
            outputs = call(*arguments, **options)
            if not all(map(_is_finite, keras.tree.flatten(outputs))):
                found.append(layer.name)
            return outputs

        return watched

    calls = {layer: layer.call for layer in dict.fromkeys(model._flatten_layers(include_self=False))}
    try:
        for layer, call in calls.items():
            layer.call = watch(layer, call)
        yield
    finally:
        for layer, call in calls.items():
            layer.call = call


def _is_finite(tensor: Any) -> bool:
    return bool(np.isfinite(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))).all())
