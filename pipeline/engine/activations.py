"""Compute activation gradients on JAX, which differentiates only with respect to a function's inputs."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np


def activation_gradients(network: Any, images: Any, labels: Any, loss: Any) -> list[Any]:
    """Return the gradients of the loss with respect to the layer outputs that `network` returns, as NumPy arrays.

    Args:
        network: a Keras model that returns the outputs of some layers, and then the probabilities.
        images: the inputs of `network`, (N, ...).
        labels: integer (N,).
        loss: a function of labels and probabilities that returns a scalar.
    """
    layers = [output._keras_history.operation for output in network.outputs[:-1]]

    def perturbed(perturbations: Sequence[Any]) -> Any:
        """Return the loss with each perturbation added to its layer's output.

        The derivative at a perturbation of zero is the gradient of the loss with respect to that output.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(keras.StatelessScope())  # batch norm's new averages are not kept
            for layer, perturbation in zip(layers, perturbations, strict=True):
                stack.enter_context(_added_to_output(layer, perturbation))
            return loss(labels, network(images, training=True)[-1])

    with keras.StatelessScope():
        shapes = jax.eval_shape(lambda: network(images, training=True)[:-1])
    gradients = jax.jit(jax.grad(perturbed))([jax.numpy.zeros(shape.shape, shape.dtype) for shape in shapes])
    return [np.asarray(gradient) for gradient in gradients]


@contextlib.contextmanager
def _added_to_output(layer: Any, perturbation: Any) -> Iterator[None]:
    call = layer.call
    layer.call = lambda *arguments, **options: call(*arguments, **options) + perturbation
    try:
        yield
    finally:
        layer.call = call
