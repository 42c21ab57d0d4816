"""Reads what finished runs left behind, and checks that its files agree."""

import csv
import math
import zipfile
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from pipeline.errors import InputError
from pipeline.records import EpochRecord, RunRecord, epoch_times
from pipeline.study import RunKey


def read_record(key: RunKey, root: Path = Path()) -> RunRecord:
    """The record of a finished run. Raises `InputError` that says how to make the run again."""
    path = root / key.directory / "record.json"
    try:
        record = RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise _missing(path, key) from None
    except ValidationError as error:
        raise _damaged(path, key, error.errors()[0]["msg"]) from None
    if record.key != key:
        raise _damaged(path, key, f"it is the record of {record.key.directory}")
    return record


def read_epochs(record: RunRecord, root: Path = Path()) -> list[EpochRecord]:
    """The epochs of a finished run, in order.

    Raises `InputError` that says how to make the run again, also where they are not those of the record.
    """
    path = root / record.key.directory / "epochs.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        epochs = [EpochRecord.model_validate({name: value or None for name, value in row.items()}) for row in rows]
    except FileNotFoundError:
        raise _missing(path, record.key) from None
    except ValidationError as error:
        fault = error.errors()[0]
        raise _damaged(path, record.key, f"{fault['loc'][0]}: {fault['msg']}. Received: {fault['input']!r}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _damaged(path, record.key, str(error).splitlines()[0]) from None
    if [epoch.epoch for epoch in epochs] != list(range(1, record.num_epochs + 1)):
        raise _damaged(path, record.key, f"it must have epochs 1 to {record.num_epochs}")
    if not all(math.isfinite(epoch.train_seconds) and epoch.train_seconds > 0 for epoch in epochs):
        raise _damaged(path, record.key, "train_seconds must be positive")
    if epoch_times(epochs) != (record.first_epoch_seconds, record.steady_epoch_seconds, record.excluded_epochs):
        raise _damaged(path, record.key, "its times are not those of the record")
    return epochs


def read_correct(record: RunRecord, root: Path = Path()) -> np.ndarray:
    """Which test examples a finished run got right, bool (num_test_examples,) in data set order; empty if it failed.

    Raises `InputError` that says how to make the run again, also where they are not the record's accuracy.
    """
    path = root / record.key.directory / "predictions.npz"
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            labels, predicted = arrays["labels"], arrays["predicted"]
    except FileNotFoundError:
        raise _missing(path, record.key) from None
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
        raise _damaged(path, record.key, "it does not hold labels and predicted") from None
    if record.final_test_accuracy is None:
        return np.empty(0, bool)
    if labels.shape != predicted.shape or not math.isclose((labels == predicted).mean(), record.final_test_accuracy):
        raise _damaged(path, record.key, f"its accuracy is not the {record.final_test_accuracy} of the record")
    return np.asarray(labels == predicted)


def _missing(path: Path, key: RunKey) -> InputError:
    return InputError(f"{path} is missing. Make the run: dvc repro {key.stage}")


def _damaged(path: Path, key: RunKey, reason: str) -> InputError:
    return InputError(f"{path} is damaged ({reason}). Make the run again: dvc repro --force --single-item {key.stage}")
