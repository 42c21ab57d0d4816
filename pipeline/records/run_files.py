"""Write what a run leaves behind: `record.json`, `epochs.csv` and `predictions.npz`."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.files.writing import csv_text
from pipeline.records.run_record import EpochRecord, RunRecord


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
