"""Read files that others may have made or damaged: open them within limits, check their types or refuse them.

Every `InputError` names the file, then the fault, then the remedy that the caller gave.
"""

import csv
import io
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from pipeline.errors import InputError

MAX_BYTES = 2**26  # of one file: the largest report of a paper-sized study has a tenth
MAX_ROWS = 10**6
MAX_MEMBERS = 20_000
_DIRECTORY_BYTES = 2**23  # of a zip file's list of members, which is read before anything can be said of it
_END, _END_64, _END_BYTES = b"PK\x05\x06", b"PK\x06\x07", 22  # of that list, and the beginning of its 64-bit form
_TAIL_BYTES = 20 + _END_BYTES + 2**16  # a comment may follow
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What the zipfile module raises on bytes that are no zip file, or are one that was damaged or made to do damage.
ZIP_FAULTS = (OSError, EOFError, ValueError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile)

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)


class Remedy(NamedTuple):
    """Say what to do where a file is missing, and where it is damaged."""

    missing: str
    damaged: str


class Untrusted(BaseModel):
    """Hold data from elsewhere: refuse unknown keys, convert no types silently, and take no NaN for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def read_bytes(path: Path, remedy: Remedy, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file, and refuse anything else that lies at `path`."""
    try:
        with regular_file(path) as file:
            content = file.read(max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{excerpt(path)} is missing. {remedy.missing}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise damaged(path, error, remedy) from None
    if len(content) > max_bytes:
        raise damaged(path, f"it has more than {max_bytes // 2**20 or 1} MiB", remedy)
    return content


@contextmanager
def regular_file(path: Path) -> Iterator[BinaryIO]:
    with open(path, "rb", opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no file")
        yield file


def _open_without_waiting(path: str, flags: int) -> int:
    """Open `path` without waiting for a writer, should a pipe lie there."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_text(path: Path, remedy: Remedy, max_bytes: int = MAX_BYTES) -> str:
    content = read_bytes(path, remedy, max_bytes)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise damaged(path, error, remedy) from None


def read_json(model: type[T], path: Path, remedy: Remedy, max_bytes: int = MAX_BYTES) -> T:
    """Return the JSON file as `model`: a pydantic model, or any type that pydantic knows, such as `list[Model]`."""
    content = read_bytes(path, remedy, max_bytes)
    try:
        from_json(content, allow_inf_nan=False)
        json.loads(content, object_pairs_hook=_once_each, parse_int=_short)
        found: T = _adapter(cast(Any, model)).validate_json(content, strict=True)
    except ValidationError as error:
        raise damaged(path, fault(error), remedy) from None
    except (ValueError, RecursionError) as error:
        raise damaged(path, error, remedy) from None
    return found


def read_rows(model: type[ModelT], path: Path, remedy: Remedy, max_bytes: int = MAX_BYTES) -> list[ModelT]:
    """Return the rows of a CSV file, each as a `model`; an empty cell is None."""
    reader = csv.DictReader(io.StringIO(read_text(path, remedy, max_bytes), newline=""))
    found = []
    try:
        columns = reader.fieldnames or ()
        if len(set(columns)) < len(columns) or not model.model_fields.keys() <= set(columns):
            raise damaged(path, "its first line does not name its columns", remedy)
        for number, row in enumerate(reader, start=1):
            if None in row or None in row.values() or number > MAX_ROWS:
                raise damaged(path, f"row {number} does not fit its columns", remedy)
            values = {name: value or None for name, value in row.items()}
            found.append(model.model_validate(values))
    except ValidationError as error:
        raise damaged(path, fault(error), remedy) from None
    except (csv.Error, ValueError) as error:
        raise damaged(path, error, remedy) from None
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a key that stands twice. Another program may read the first of the two values, where we read the last."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice in it")


def _short(digits: str) -> None:
    """Refuse an integer of more than 63 bits: it overflows where it is used."""
    if len(digits) > 20 or int(digits).bit_length() > 63:
        raise ValueError("an integer in it is out of range")


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """Open the zip file in `file`.

    Raise one of `ZIP_FAULTS` if it has no list of members, or one too long to be read.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read()
    start = tail.rfind(_END)
    if start < 0 or len(tail) < start + _END_BYTES:
        raise ValueError("it is not a zip file, or its end is missing")
    num_members, num_bytes = struct.unpack("<HL", tail[start + 10 : start + 16])
    is_64 = tail[max(0, start - 20) : start].startswith(_END_64)  # whose numbers stand elsewhere
    if is_64 or num_members > MAX_MEMBERS or num_bytes > _DIRECTORY_BYTES:
        raise ValueError(f"it lists more than {MAX_MEMBERS} files")
    return zipfile.ZipFile(file)


def checked_members(file: zipfile.ZipFile, max_bytes: int = MAX_BYTES) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name, from the list alone. Raise `ValueError` if one can't be read within the limits."""
    members = {info.filename: info for info in file.infolist()}
    if len(members) != len(file.infolist()):
        raise ValueError("a name stands twice in it")
    for info in members.values():
        if info.flag_bits & 1:
            raise ValueError(f"{excerpt(info.filename)} in it is encrypted")
        if info.compress_type not in _METHODS:
            raise ValueError(f"{excerpt(info.filename)} in it is compressed by a method that is not ours")
        if info.file_size > max_bytes:
            raise ValueError(f"{excerpt(info.filename)} in it has more than {max_bytes // 2**20} MiB")
    return members


def read_member(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the content of a member. Raise one of `ZIP_FAULTS` if its size is not the one in the list."""
    with file.open(info) as member:
        content = member.read(info.file_size + 1)
        if len(content) != info.file_size or member.read(1):
            raise ValueError(f"{excerpt(info.filename)} in it has another size than is listed")
    return content


def damaged(path: Path, reason: object, remedy: Remedy) -> InputError:
    first = (str(reason).splitlines() or [type(reason).__name__])[0]
    return InputError(f"{excerpt(path)} is damaged ({excerpt(first)}). {remedy.damaged}")


def fault(error: ValidationError) -> str:
    """Describe the first fault that pydantic found: where it is, what is wrong, and what was received."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    message = str(first["msg"]).removeprefix("Value error, ")
    received = "" if first["type"] in ("value_error", "missing", "json_invalid") else f". Received: {first['input']!r}"
    return f"{where}: {message}{received}" if where else message


def excerpt(value: object, max_characters: int = 200) -> str:
    """Return text from elsewhere as a message shows it: short, with everything that is not printable escaped."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value)[: max_characters + 1])
    return text if len(text) <= max_characters else text[:max_characters] + "…"
