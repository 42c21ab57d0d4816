"""Time the training of each epoch, until the device has finished its last step, and the validation."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras

from pipeline import engine
from pipeline.records.run_record import EpochRecord
from pipeline.training.precision import loss_scale_now, steps_taken


class EpochClock(keras.callbacks.Callback):
    """Time each epoch from its first batch until its last step has finished; then time validation separately.

    Training stops after an epoch whose training or validation loss is not finite. In each record, `since_start` counts
    the epochs of this process from 1. Epoch 1 of a process takes longer, because Keras traces and compiles the model.

    Args:
        validate: returns the loss, and the accuracy in [0, 1], on the validation set.
        on_epoch: called with each epoch's record after the epoch's validation.
        earlier: the records of epochs that earlier processes trained.
    """

    def __init__(
        self,
        validate: Callable[[], tuple[float, float]],
        on_epoch: Callable[[EpochRecord], None],
        earlier: Sequence[EpochRecord] = (),
    ) -> None:
        super().__init__()
        self.epochs = list(earlier)
        self.diverged = False
        self._validate = validate
        self._on_epoch = on_epoch
        self._num_earlier = len(earlier)
        self._started = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        engine.synchronise()
        self._started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        engine.synchronise()
        trained = time.perf_counter()
        validation_loss, validation_accuracy = self._validate()
        validated = time.perf_counter()
        logs = logs or {}
        optimizer = self.model.optimizer
        record = EpochRecord(
            epoch=epoch + 1,
            since_start=epoch + 1 - self._num_earlier,
            train_seconds=trained - self._started,
            validation_seconds=validated - trained,
            train_loss=float(logs["loss"]),
            train_accuracy=float(logs["accuracy"]),
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            loss_scale=loss_scale_now(optimizer),
            skipped_steps=(epoch + 1) * self.params["steps"] - steps_taken(optimizer),
        )
        self.epochs.append(record)
        self.diverged = not (math.isfinite(record.train_loss) and math.isfinite(record.validation_loss))
        self.model.stop_training = self.diverged
        self._on_epoch(record)
