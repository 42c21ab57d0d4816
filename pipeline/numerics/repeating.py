"""Train a small model again and again: one model is set back each time, because tracing costs more than training."""

from collections.abc import Iterable, Iterator

import keras
import numpy as np


def from_each(model: keras.Model, starts: Iterable[list[np.ndarray]]) -> Iterator[None]:
    """Set the weights of a compiled model to each of `starts`, and its optimizer back to how it is now."""
    model.optimizer.build(model.trainable_variables)
    fresh = [keras.ops.convert_to_numpy(variable.value) for variable in model.optimizer.variables]
    for start in starts:
        model.set_weights(start)
        for variable, value in zip(model.optimizer.variables, fresh, strict=True):
            variable.assign(value)
        yield


def fit_in_order(
    model: keras.Model,
    images: np.ndarray,
    labels: np.ndarray,
    batch_size: int,
    num_epochs: int,
    rng: np.random.Generator,
) -> None:
    """Train some epochs in one call, each in an order that `rng` draws.

    Args:
        model: compiled, best with `steps_per_execution` of an epoch.
        images: (num_examples, height, width, channels).
        labels: (num_examples,).
    """
    rows = np.concatenate([rng.permutation(len(labels)) for _ in range(num_epochs)])
    model.fit(images[rows], labels[rows], batch_size=batch_size, shuffle=False, verbose=0)
