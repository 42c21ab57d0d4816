"""Batches in an order that depends on the seed and the epoch alone, the same on every engine."""

import math

import keras
import numpy as np

from pipeline.datasets import Examples


class ShuffledBatches(keras.utils.PyDataset):
    """Every example once an epoch, newly permuted for each epoch; the last batch may be smaller."""

    def __init__(self, examples: Examples, batch_size: int, seed: int) -> None:
        super().__init__()
        self._examples = examples
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = -1
        self._order = np.arange(len(examples.labels))

    def __len__(self) -> int:
        return math.ceil(len(self._examples.labels) / self._batch_size)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self._order[index * self._batch_size : (index + 1) * self._batch_size]
        return self._examples.images[rows], self._examples.labels[rows]

    def on_epoch_begin(self) -> None:
        # Not at the end of an epoch: Keras ends one more than it begins, after a look at the first batches' shapes.
        self._epoch += 1
        self._order = np.random.default_rng((self._seed, self._epoch)).permutation(len(self._examples.labels))
