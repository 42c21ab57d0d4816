"""Read NumPy files that others may have made or damaged, without evaluating headers or unpickling."""

import io
import math
import os
import re
import struct
from pathlib import Path

import numpy as np

from pipeline.errors import InputError
from pipeline.files.untrusted import (
    ZIP_FAULTS,
    Remedy,
    checked_members,
    damaged,
    excerpt,
    open_zip,
    read_bytes,
    read_member,
    regular_file,
)

_NUMPY = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<>|](?:[iu][1248]|f[48]))', 'fortran_order': False, 'shape': \(([\d, ]{0,99})\), \}\s*"
)
_MAX_HEADER_BYTES = 10 + 2**16


def read_integers(path: Path, names: tuple[str, ...], remedy: Remedy) -> dict[str, np.ndarray]:
    """Return the named arrays of an npz file, each of integers (N,). Unpickle nothing."""
    return _read(path, names, remedy, "iu")


def read_floats(path: Path, names: tuple[str, ...], remedy: Remedy) -> dict[str, np.ndarray]:
    """Return the named arrays of an npz file, each of finite floating point numbers (N,). Unpickle nothing."""
    arrays = _read(path, names, remedy, "f")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise damaged(path, "it has numbers that are not finite", remedy)
    return arrays


def _read(path: Path, names: tuple[str, ...], remedy: Remedy, kinds: str) -> dict[str, np.ndarray]:
    content = read_bytes(path, remedy)
    try:
        with open_zip(io.BytesIO(content)) as file:
            members = checked_members(file)
            if members.keys() != {f"{name}.npy" for name in names}:
                raise ValueError(f"it does not hold {' and '.join(names)} alone")
            return {name: _array(read_member(file, members[f"{name}.npy"]), kinds) for name in names}
    except ZIP_FAULTS as error:
        raise damaged(path, error, remedy) from None


def _array(content: bytes, kinds: str) -> np.ndarray:
    dtype, shape, start = _array_header(content, kinds)
    if len(shape) != 1:
        raise ValueError(f"an array in it has {len(shape)} dimensions and not 1")
    if shape[0] * dtype.itemsize != len(content) - start:
        raise ValueError("an array in it has another length than its header says")
    return np.frombuffer(content, dtype, offset=start)


def map_integers(path: Path, remedy: Remedy) -> np.memmap:
    """Map the array of integers in an npy file into memory, whatever its shape."""
    try:
        with regular_file(path) as file:
            dtype, shape, start = _array_header(file.read(_MAX_HEADER_BYTES), "iu")
            if math.prod(shape) == 0 or math.prod(shape) * dtype.itemsize != os.fstat(file.fileno()).st_size - start:
                raise ValueError("it has another length than its header says")
            return np.memmap(file, dtype, "r", start, shape)
    except FileNotFoundError:
        raise InputError(f"{excerpt(path)} is missing. {remedy.missing}") from None
    except (OSError, ValueError) as error:
        raise damaged(path, error, remedy) from None


def _array_header(content: bytes, kinds: str) -> tuple[np.dtype, tuple[int, ...], int]:
    """Return type, shape and where the numbers begin.

    It reads NumPy's format 1.0, whose header is text; nothing evaluates it. `kinds` are those of NumPy's dtypes.
    """
    if not content.startswith(_NUMPY) or len(content) < 10:
        raise ValueError("it holds something else than arrays in NumPy's format 1.0")
    start = 10 + struct.unpack("<H", content[8:10])[0]
    header = _HEADER.fullmatch(content[10:start])
    dtype = np.dtype(header[1].decode()) if header else None
    if header is None or dtype is None or dtype.kind not in kinds:
        wanted = "integers" if kinds == "iu" else "floating point numbers"
        raise ValueError(f"it holds something else than arrays of {wanted}")
    return dtype, tuple(int(size) for size in re.findall(rb"\d+", header[2])), start
