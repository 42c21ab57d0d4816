"""Read NumPy files that others may have made or damaged. Nothing in them is unpickled."""

import io
from pathlib import Path

import numpy as np

from pipeline.files.untrusted import Remedy, damaged, read_zip


def read_integers(path: Path, names: tuple[str, ...], remedy: Remedy) -> dict[str, np.ndarray]:
    """Return the named arrays of an npz file, each of integers (N,)."""
    contents = read_zip(path, remedy)
    if contents.keys() != {f"{name}.npy" for name in names}:
        raise damaged(path, f"it does not hold {' and '.join(names)} alone", remedy)
    try:
        arrays = {
            name: np.lib.format.read_array(io.BytesIO(contents[f"{name}.npy"]), allow_pickle=False) for name in names
        }
    except Exception as error:  # whatever NumPy makes of bytes that are no array, or of fewer than a header promises
        raise damaged(path, error, remedy) from None
    if any(array.dtype.kind not in "iu" or array.ndim != 1 for array in arrays.values()):
        raise damaged(path, "it holds something else than arrays of integers in one dimension", remedy)
    return arrays
