"""Checkpoints: with them an interrupted run goes on after its last whole epoch, and ends with the same bits."""

import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipeline.files.writing import whole
from pipeline.records.run_record import Disturbance, EpochRecord
from pipeline.training.so_far import NOTHING, Progress


class Checkpoint:
    """The checkpoint of one run in `folder`, as of its last whole epoch.

    Args:
        surroundings: what decides what the run computes and how fast besides its identity, ready for JSON. A checkpoint
            that was saved in others is not found, and goes when the run is finished.
    """

    def __init__(self, folder: Path, surroundings: dict[str, Any]) -> None:
        text = json.dumps(surroundings, sort_keys=True)
        self._path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"

    def save(self, model: keras.Model, progress: Progress) -> None:
        """Keep the variables of `model` and its optimizer, random state and loss scale among them, in one step."""
        text = json.dumps(
            {
                "epochs": [epoch.model_dump() for epoch in progress.epochs],
                "disturbance": progress.disturbance and progress.disturbance.model_dump(),
            }
        )
        with whole(self._path) as partial, partial.open("wb") as file:
            # As np.savez writes it, but a variable at a time: no second copy of the model. As bytes: NumPy's files know
            # no bfloat16.
            with zipfile.ZipFile(file, "w") as archive:
                _write(archive, "progress", np.array(text))
                for index, variable in enumerate(_variables(model)):
                    _write(archive, f"arr_{index}", np.frombuffer(_array(variable).tobytes(), np.uint8))
            file.flush()
            os.fsync(file.fileno())  # or a machine that loses its power leaves a whole name on half a file

    def restore(self, model: keras.Model) -> Progress:
        """Set the variables of `model` and its optimizer to those of the checkpoint, where there is a sound one."""
        try:
            with self._path.open("rb") as file, np.load(file) as saved:
                read = json.loads(str(saved["progress"]))
                variables = _variables(model)
                arrays = [saved[f"arr_{index}"] for index in range(len(variables))]
        except FileNotFoundError:
            return NOTHING
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            print(f"{self._path} is damaged ({error}); the run starts again.", file=sys.stderr)
            return NOTHING
        for variable, array in zip(variables, arrays, strict=True):
            now = _array(variable)
            variable.assign(np.frombuffer(array.tobytes(), now.dtype).reshape(now.shape))
        return Progress(
            [EpochRecord.model_validate(epoch) for epoch in read["epochs"]],
            Disturbance.model_validate(read["disturbance"]),
        )


def _variables(model: keras.Model) -> Sequence[keras.Variable]:
    return [*model.trainable_variables, *model.non_trainable_variables, *model.optimizer.variables]


def _write(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array)


def _array(variable: keras.Variable) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(variable))
