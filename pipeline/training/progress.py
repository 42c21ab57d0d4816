"""Training progress: a live line in a terminal, a line an epoch in a log."""

import time
from typing import Any

import keras
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.machine.terminal import Terminal
from pipeline.records.schema import EpochRecord


class ProgressLine(keras.callbacks.Callback):
    """Show the epoch, images per second and time left while a model trains.

    It reads no values of a step, so Keras need not wait for each before it tells of it.
    """

    async_safe = True

    def __init__(self, title: str, num_epochs: int, num_examples: int) -> None:
        super().__init__()
        self._console = Terminal()
        self._title = title
        self._num_epochs = num_epochs
        self._num_examples = num_examples
        self._begun = 0.0
        self._line = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("steps · {task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._task = self._line.add_task(
            f"epoch 1/{self._num_epochs}", total=self._num_epochs * self.params["steps"], rate="tracing"
        )
        if self._console.is_terminal:
            self._console.print(self._title, highlight=False)  # apart, so that the live line fits 80 columns
        self._line.start()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun = time.perf_counter()
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        share = (batch + 1) / self.params["steps"]
        rate = share * self._num_examples / (time.perf_counter() - self._begun)
        self._line.update(
            self._task,
            completed=self._epoch * self.params["steps"] + batch + 1,
            description=f"epoch {self._epoch + 1}/{self._num_epochs}",
            rate=f"{rate:,.0f} images/s",
        )

    def close(self) -> None:
        """Take the live line away, also after an exception, of which Keras tells no callback."""
        self._line.stop()

    def epoch(self, record: EpochRecord) -> None:
        """Return one line for an epoch that has ended."""
        remaining = (self._num_epochs - record.epoch) * (record.train_seconds + record.validation_seconds)
        self._console.print(
            f"{self._title} · epoch {record.epoch}/{self._num_epochs} · {record.train_seconds:.2f} s · "
            f"{self._num_examples / record.train_seconds:,.0f} images/s · loss {record.train_loss:.4f} · "
            f"validation accuracy {record.validation_accuracy:.4f} · at most {remaining:.0f} s left",
            highlight=False,
            soft_wrap=True,
        )
