"""Find the first layer whose output or gradient is not finite, with a diverged run's model and a few images."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import engine  # first, to silence the engine's start-up messages

# isort: split
import keras
import numpy as np

NUM_EXAMINED = 32  # the number of images


def first_not_finite(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> str | None:
    """Name the first layer output that is not finite; if all outputs are finite, name the first gradient that is not.

    Args:
        model: a compiled model, with the weights that it had before it diverged.
        images: uint8 (N, h, w, C). Only the first `NUM_EXAMINED` are used.
        labels: integer (N,).

    Returns:
        Words such as "the output of block/attend", with the layer's path, or "the gradient of attend/kernel", with the
        names of layer and weight. None if all outputs and gradients are finite.
    """
    found: list[str] = []

    def see(path: str, _: keras.layers.Layer, outputs: Any) -> None:
        if not all(map(_is_finite, keras.tree.flatten(outputs))):
            found.append(path)

    images, labels = images[:NUM_EXAMINED], labels[:NUM_EXAMINED]

    def loss() -> Any:
        return model.optimizer.scale_loss(model.compute_loss(y=labels, y_pred=model(images, training=True)))

    with watched(model, see):
        model(images, training=True)
    if found:
        return f"the output of {found[0]}"
    gradients = engine.gradients(loss, model.trainable_variables)
    # In reverse order, because the gradient of the last layer is computed first.
    for variable, gradient in reversed([*zip(model.trainable_variables, gradients, strict=True)]):
        if not _is_finite(gradient):
            return f"the gradient of {'/'.join(variable.path.split('/')[-2:])}"
    return None


@contextlib.contextmanager
def watched(model: keras.Model, see: Callable[[str, keras.layers.Layer, Any], None]) -> Iterator[None]:
    """Call `see` with path, layer and outputs each time a layer inside `model` computes inside the block."""

    def watch(path: str, layer: keras.layers.Layer, call: Any) -> Any:
        def call_and_show(*arguments: Any, **options: Any) -> Any:
            outputs = call(*arguments, **options)
            see(path, layer, outputs)
            return outputs

        return call_and_show

    paths = dict(_paths(model))
    calls = {layer: layer.call for layer in paths}
    try:
        for layer, call in calls.items():
            layer.call = watch(paths[layer], layer, call)
        yield
    finally:
        for layer, call in calls.items():
            layer.call = call


def _paths(layer: keras.layers.Layer, path: str = "") -> Iterator[tuple[keras.layers.Layer, str]]:
    """Yield each layer inside `layer` with its path, such as "block/attend".

    If `layer` is a model that contains another model, the paths of layers in the contained model leave out its name.
    """
    for part in dict.fromkeys(layer._layers):
        is_network = not path and isinstance(part, keras.Model)
        yield part, f"{path}{part.name}"
        yield from _paths(part, path if is_network else f"{path}{part.name}/")


def _is_finite(tensor: Any) -> bool:
    return bool(np.isfinite(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))).all())
