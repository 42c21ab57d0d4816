"""Save checkpoints, so that an interrupted run resumes after its last finished epoch, in the same state bit for bit."""

import hashlib
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from pipeline.files.writing import whole
from pipeline.records.run_record import Disturbance, EpochRecord
from pipeline.training.so_far import NOTHING, Progress


class Checkpoint:
    """Keep one checkpoint of a run in `folder`: the state after the last epoch for which `save` was called.

    Args:
        surroundings: values that must be the same when the run resumes, such as the names of the device and its driver.
            A checkpoint from other surroundings is ignored. `finish` deletes the whole folder.
    """

    def __init__(self, folder: Path, surroundings: Sequence[str | None]) -> None:
        self._path = folder / f"{hashlib.sha256(json.dumps(surroundings).encode()).hexdigest()}.npz"

    def save(self, model: keras.Model, progress: Progress) -> None:
        """Save `progress` and the variables of `model` and its optimizer, such as weights, random state and loss scale.

        An older checkpoint stays until the new one is complete.
        """
        text = json.dumps(
            {
                "epochs": [epoch.model_dump() for epoch in progress.epochs],
                "disturbance": progress.disturbance and progress.disturbance.model_dump(),
            }
        )
        # Save arrays as bytes, because NumPy's files can't hold bfloat16.
        arrays = [np.frombuffer(_array(variable).tobytes(), np.uint8) for variable in _variables(model)]
        with whole(self._path) as partial:
            np.savez(partial, *arrays, progress=text)

    def restore(self, model: keras.Model) -> Progress:
        """Restore `model` and its optimizer from the checkpoint, and return the run's progress.

        If the checkpoint is missing or damaged, change nothing and return `NOTHING`.
        """
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


def _array(variable: keras.Variable) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(variable))
