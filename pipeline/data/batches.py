"""Serve examples in batches. The order of training examples depends on the seed and the epoch, not on the engine."""

import math
from typing import Any

from pipeline import engine  # import this before Keras, so that the engine starts silently

# isort: split
import keras
import numpy as np

from pipeline.data.datasets import Examples


class ShuffledBatches(keras.utils.PyDataset):
    """Serve every example once per epoch, in a different order in each epoch.

    A batch consists of uint8 images (n, H, W, C) and integer labels (n,). n is `batch_size`, except in the last batch,
    which may be smaller.

    Args:
        seed: together with the epoch, determines the order of the examples.
        on_device: whether to keep all examples on the device and send only the row numbers of each batch (JAX only).
            The batches hold the same values either way.
    """

    def __init__(self, examples: Examples, batch_size: int, seed: int, on_device: bool = False) -> None:
        super().__init__()
        self._num_examples = len(examples.labels)
        self._take = engine.kept_on_device(*examples) if on_device else examples.take
        self._batch_size = batch_size
        self._seed = seed
        self.begin_epoch(0)

    def __len__(self) -> int:
        return math.ceil(len(self._order) / self._batch_size)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._take(self._order[index * self._batch_size : (index + 1) * self._batch_size])

    def begin_epoch(self, epoch: int) -> None:
        """Shuffle the examples for `epoch`, counted from 0.

        The training loops call this method before each epoch.
        """
        self._order = np.random.default_rng((self._seed, epoch)).permutation(self._num_examples)


class WholeBatches(keras.utils.PyDataset):
    """Serve images (N, H, W, C) in order. Fill the last batch with copies of the last image.

    Every batch has the shape (batch_size, H, W, C), so XLA compiles the model only once.
    """

    def __init__(self, images: np.ndarray, batch_size: int) -> None:
        super().__init__()
        self._images = images
        self._batch_size = batch_size

    def __len__(self) -> int:
        return math.ceil(len(self._images) / self._batch_size)

    def __getitem__(self, index: int) -> np.ndarray:
        rows = np.arange(index * self._batch_size, (index + 1) * self._batch_size)
        return self._images[np.minimum(rows, len(self._images) - 1)]
