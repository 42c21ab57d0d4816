"""Scalars and histograms of every epoch, for TensorBoard."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
from tensorboardX import SummaryWriter

from pipeline.records.schema import EpochRecord


class EpochLog:
    """Keep what an epoch measured and the distribution of every weight, in TensorBoard's event files."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._folder = tempfile.TemporaryDirectory()
        self._writer = SummaryWriter(self._folder.name)

    def write(self, epoch: EpochRecord) -> None:
        """Call it after an epoch, outside the timed window."""
        for name, value in epoch.model_dump(exclude={"epoch"}).items():
            if value is not None:
                self._writer.add_scalar(name, value, epoch.epoch)
        for variable, values in zip(self._model.weights, self._model.get_weights(), strict=True):
            if variable.trainable and np.isfinite(values).all():
                self._writer.add_histogram(variable.path, values.astype(np.float32), epoch.epoch)

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield the finished files; they are gone after the block."""
        self._writer.close()
        with self._folder as name:
            yield Path(name)
