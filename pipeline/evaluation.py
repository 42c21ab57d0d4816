"""How good a model is on examples it was not trained on."""

import math

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
import numpy as np

from pipeline import datasets


def whole_batches(num_examples: int, batch_size: int) -> np.ndarray:
    """Rows in order, the last one repeated until the last batch is full."""
    return np.minimum(np.arange(math.ceil(num_examples / batch_size) * batch_size), num_examples - 1)


def score(model: keras.Model, examples: datasets.Examples, batch_size: int) -> tuple[float, float, np.ndarray]:
    """Mean cross-entropy, accuracy in [0, 1], and the most probable class of each example (N,).

    XLA compiles for one shape, and several devices share a batch evenly: every batch is a whole one.
    """
    num_examples = len(examples.labels)
    images = examples.images[whole_batches(num_examples, batch_size)]
    probabilities = engine.predict(model, images, batch_size)[:num_examples]
    true = np.take_along_axis(probabilities, examples.labels[:, None], axis=1)[:, 0]
    # Keras clips at the same place, so that a probability of zero costs 16.1 and not infinity.
    loss = -np.log(np.clip(true, keras.config.epsilon(), 1.0)).mean(dtype=np.float64)
    predicted = probabilities.argmax(axis=1)
    return float(loss), float((predicted == examples.labels).mean()), predicted
