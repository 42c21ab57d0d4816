"""Measure a model on examples that it was not trained on."""

from pipeline import engine  # first: it silences the engine before Keras imports it

# isort: split
import keras
import numpy as np

from pipeline.data.batches import WholeBatches
from pipeline.data.datasets import Examples


def score(model: keras.Model, examples: Examples, batch_size: int) -> tuple[float, float, np.ndarray]:
    """Return the mean cross-entropy, the accuracy in [0, 1], and each example's most probable class, integer (N,)."""
    labels = examples.labels
    probabilities = engine.predict(model, WholeBatches(examples.images, batch_size))[: len(labels)]
    true = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    # Clip as Keras does, so that a probability of zero costs 16.1 and not infinity.
    loss = -np.log(np.clip(true, keras.config.epsilon(), 1.0)).mean(dtype=np.float64)
    predicted = probabilities.argmax(axis=1)
    return float(loss), float((predicted == labels).mean()), predicted
