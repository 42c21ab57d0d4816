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
_HEADER = re.compile(rb"\{'descr': '([<>|][iu][1248])', 'fortran_order': False, 'shape': \(([\d, ]{0,99})\), \}\s*")
_MAX_HEADER_BYTES = 10 + 2**16


def read_integers(path: Path, names: tuple[str, ...], remedy: Remedy) -> dict[str, np.ndarray]:
    """Return the named arrays of an npz file, each of integers (N,). Unpickle nothing."""
    content = read_bytes(path, remedy)
    try:
        with open_zip(io.BytesIO(content)) as file:
            members = checked_members(file)
            if members.keys() != {f"{name}.npy" for name in names}:
                raise ValueError(f"it does not hold {' and '.join(names)} alone")
            return {name: _integers(read_member(file, members[f"{name}.npy"])) for name in names}
    except ZIP_FAULTS as error:
        raise damaged(path, error, remedy) from None


def _integers(content: bytes) -> np.ndarray:
    dtype, shape, start = _array_header(content)
    if len(shape) != 1:
        raise ValueError(f"an array in it has {len(shape)} dimensions and not 1")
    if shape[0] * dtype.itemsize != len(content) - start:
        raise ValueError("an array in it has another length than its header says")
    return np.frombuffer(content, dtype, offset=start)


def map_integers(path: Path, remedy: Remedy) -> np.memmap:
    """Map the array of integers in an npy file into memory, whatever its shape."""
    try:
        with regular_file(path) as file:
            dtype, shape, start = _array_header(file.read(_MAX_HEADER_BYTES))
            if math.prod(shape) == 0 or math.prod(shape) * dtype.itemsize != os.fstat(file.fileno()).st_size - start:
                raise ValueError("it has another length than its header says")
            return np.memmap(file, dtype, "r", start, shape)
    except FileNotFoundError:
        raise InputError(f"{excerpt(path)} is missing. {remedy.missing}") from None
    except (OSError, ValueError) as error:
        raise damaged(path, error, remedy) from None


def _array_header(content: bytes) -> tuple[np.dtype, tuple[int, ...], int]:
    """Return type, shape and where the numbers begin.

    It reads NumPy's format 1.0, whose header is text; nothing evaluates it.
    """
    if not content.startswith(_NUMPY) or len(content) < 10:
        raise ValueError("it holds something else than arrays in NumPy's format 1.0")
    start = 10 + struct.unpack("<H", content[8:10])[0]
    header = _HEADER.fullmatch(content[10:start])
    if header is None:
        raise ValueError("it holds something else than arrays of integers")
    return np.dtype(header[1].decode()), tuple(int(size) for size in re.findall(rb"\d+", header[2])), start
