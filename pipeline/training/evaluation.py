"""Measure a model on examples that it was not trained on."""

from pipeline import engine  # first, to silence the engine's start-up messages

# isort: split
import keras
import numpy as np

from pipeline.data.batches import WholeBatches
from pipeline.data.datasets import Examples


def predict(model: keras.Model, images: np.ndarray, batch_size: int) -> np.ndarray:
    """Return the probabilities (N, num_classes) that `model` predicts for images (N, H, W, C)."""
    batches = engine.feed(WholeBatches(images, batch_size))
    return np.asarray(model.predict(batches, verbose=0))[: len(images)]


def score(model: keras.Model, examples: Examples, batch_size: int) -> tuple[float, float, np.ndarray]:
    """Return the mean cross-entropy, the accuracy in [0, 1], and each example's most probable class, integer (N,)."""
    labels = examples.labels
    probabilities = predict(model, examples.images, batch_size)
    true = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    # Clip as Keras does, so that a probability of zero costs 16.1 and not infinity.
    loss = -np.log(np.clip(true, keras.config.epsilon(), 1.0)).mean(dtype=np.float64)
    predicted = probabilities.argmax(axis=1)
    return float(loss), float((predicted == labels).mean()), predicted
