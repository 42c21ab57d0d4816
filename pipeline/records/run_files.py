"""Write what a run leaves behind: `record.json`, `epochs.csv` and `predictions.npz`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.files.writing import csv_text
from pipeline.records.run_record import EpochRecord, Outcome, RunRecord


def write_run(
    folder: Path, record: RunRecord, epochs: Sequence[EpochRecord], labels: np.ndarray, predicted: np.ndarray
) -> None:
    """Write the files of a run into `folder`.

    Args:
        labels: integer (num_test_examples,), true classes in data set order.
        predicted: integer (num_test_examples,), each example's most probable class; empty if the run did not complete.
    """
    rows = csv_text(list(EpochRecord.model_fields), (epoch.model_dump() for epoch in epochs))
    (folder / "record.json").write_text(json.dumps(record.model_dump(), indent=2) + "\n", encoding="utf-8")
    (folder / "epochs.csv").write_text(rows, encoding="utf-8")
    np.savez_compressed(folder / "predictions.npz", labels=_narrow(labels), predicted=_narrow(predicted))


def _narrow(classes: np.ndarray) -> np.ndarray:
    """Return `classes` in the smallest integer type that holds them, which halves the archive."""
    return classes.astype(np.min_scalar_type(int(classes.max(initial=0))))


def epoch_scores(epochs: Sequence[EpochRecord], outcome: Outcome) -> dict[str, Any]:
    """Return the fields of `Scores` that follow from the last epoch of a run."""
    last = epochs[-1] if epochs else None
    ended = last if outcome == "completed" else None
    return {
        "skipped_steps": last and last.skipped_steps,
        "loss_scale": last and last.loss_scale,
        "train_loss": ended and ended.train_loss,
        "validation_accuracy": ended and ended.validation_accuracy,
    }
