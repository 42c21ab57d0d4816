"""Read files that others may have made or damaged. Limit the size of the files, and check the types of their values.

Every `InputError` names the file, then the fault, then the remedy that the caller passed.
"""

import csv
import io
import zipfile
from collections.abc import Set
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline.errors import InputError

MAX_BYTES = 2**26  # of one file; the report of a study with PROFILE=paper takes at most a tenth of this
_MAX_MEMBERS = 20_000
_MAX_UNPACKED_BYTES = 2**28  # of all members of a zip file together
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile unpacks other methods without a limit

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)


class Untrusted(BaseModel):
    """Hold data that others may have made. Refuse values of another type, NaN and infinity.

    Refuse unknown keys, too, unless a subclass allows them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def read_bytes(path: Path, remedy: str) -> bytes:
    """Return the content of the file at `path`. Raise `InputError` if the file is missing or too large."""
    if not path.is_file():
        raise InputError(f"{excerpt(path)} is missing.", remedy)
    if path.stat().st_size > MAX_BYTES:
        raise damaged(path, f"it has more than {MAX_BYTES // 2**20} MiB", remedy)
    return path.read_bytes()


def read_json(model: type[T], path: Path, remedy: str) -> T:
    """Return the content of a JSON file as a `model`.

    Args:
        model: a pydantic model, or any type that pydantic can check, such as `list[Model]`.

    Raises:
        InputError: the file is missing or too large, or its content is not JSON or does not fit `model`.
    """
    content = read_bytes(path, remedy)
    try:
        return TypeAdapter(model).validate_json(content, strict=True)
    except ValueError as error:
        raise damaged(path, error, remedy) from None


def read_rows(model: type[ModelT], path: Path, remedy: str, may_lack: Set[str] = frozenset()) -> list[ModelT]:
    """Return the rows of a CSV file, each as a `model`. An empty cell becomes None.

    Args:
        may_lack: columns of `model` that the file may lack, because older files do not have them.

    Raises:
        InputError: the file is missing, too large or no valid CSV file, or a column or a value does not fit `model`.
    """
    content = read_bytes(path, remedy)
    found = []
    try:
        reader = csv.DictReader(io.StringIO(content.decode(), newline=""))
        columns = reader.fieldnames or ()
        if len(set(columns)) < len(columns) or not model.model_fields.keys() - may_lack <= set(columns):
            raise ValueError("its first line does not list its columns")
        for number, row in enumerate(reader, start=1):
            if None in row or None in row.values():
                raise ValueError(f"row {number} does not match its columns")
            found.append(model.model_validate({name: value or None for name, value in row.items()}))
    except (csv.Error, ValueError) as error:
        raise damaged(path, error, remedy) from None
    return found


def read_zip(path: Path, remedy: str) -> dict[str, bytes]:
    """Return the content of every member of a zip file, by the member's name.

    The list of members is checked before any member is unpacked.

    Raises:
        InputError: the file is missing, too large or damaged, or its members are too many or too large.
    """
    content = read_bytes(path, remedy)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = file.infolist()
            # The end of the file gives the number of members. zipfile ignores this number; other programs trust it.
            if not len(members) == int.from_bytes(content[-12:-10], "little") <= _MAX_MEMBERS:
                raise ValueError(f"it lists more than {_MAX_MEMBERS} files, or the count that it gives is wrong")
            if len({info.filename for info in members}) < len(members):
                raise ValueError("it contains a name twice")
            if any(info.compress_type not in _METHODS for info in members):
                raise ValueError("it uses an unknown compression method")
            if sum(info.file_size for info in members) > _MAX_UNPACKED_BYTES:
                raise ValueError(f"its files have more than {_MAX_UNPACKED_BYTES // 2**20} MiB together")
            return {info.filename: file.open(info).read(info.file_size + 1) for info in members}
    except Exception as error:  # zipfile raises many kinds of errors for damaged files
        raise damaged(path, error, remedy) from None


def damaged(path: Path, reason: object, remedy: str) -> InputError:
    told = fault(reason) if isinstance(reason, ValidationError) else str(reason) or type(reason).__name__
    return InputError(f"{excerpt(path)} is damaged ({excerpt(told.splitlines()[0])}).", remedy)


def fault(error: ValidationError) -> str:
    """Describe the first fault that pydantic found: its place, a message and, if useful, the value received."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    message = str(first["msg"]).removeprefix("Value error, ")
    received = "" if first["type"] in ("value_error", "missing", "json_invalid") else f". Received: {first['input']!r}"
    return f"{where}: {message}{received}" if where else message


def excerpt(value: object, max_characters: int = 200) -> str:
    """Return `value` as text for a message, with unprintable characters escaped.

    Text of more than `max_characters` characters is cut there and ends in "…".
    """
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value)[: max_characters + 1])
    return text if len(text) <= max_characters else text[:max_characters] + "…"
