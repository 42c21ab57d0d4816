"""Log every epoch's scalars for TensorBoard, named as in `epochs.csv` and DVC's plots, and weight histograms."""

import shutil
from pathlib import Path

import keras
import numpy as np
from tensorboardX import SummaryWriter

from pipeline.records.run_record import EpochRecord


class EpochLog:
    """Log each epoch's measurements and the distribution of every weight in TensorBoard's event files in `folder`.

    Args:
        num_earlier: how many epochs an earlier process has trained. What it logged of later epochs is hidden.
    """

    def __init__(self, model: keras.Model, folder: Path, num_earlier: int) -> None:
        if not num_earlier:
            shutil.rmtree(folder, ignore_errors=True)
        self._model = model
        # The suffix distinguishes files created in the same second.
        self._writer = SummaryWriter(str(folder), purge_step=num_earlier + 1, filename_suffix=f".{num_earlier}")

    def write(self, epoch: EpochRecord) -> None:
        """Log an epoch. Call it after the epoch, outside the timed window."""
        for name, value in epoch.model_dump(exclude={"epoch", "since_start"}).items():
            if value is not None:
                self._writer.add_scalar(name, value, epoch.epoch)
        for variable, values in zip(self._model.weights, self._model.get_weights(), strict=True):
            if variable.trainable and np.isfinite(values).all():
                self._writer.add_histogram(variable.path, values.astype(np.float32), epoch.epoch)
        self._writer.flush()  # the process may be ended at any time

    def close(self) -> None:
        self._writer.close()
