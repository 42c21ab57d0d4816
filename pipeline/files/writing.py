"""Write files and folders that appear complete or not at all."""

import csv
import io
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return the text of a CSV file that `pipeline.files.untrusted.read_rows` reads. None becomes an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_whole(path: Path, text: str) -> None:
    """Write `text` to the file `path` at one instant: readers find the old text or the new, and never a part.

    Several processes may write to `path` at once.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, where the block makes a file or folder. Move the result to `path`.

    The result replaces what was at `path`. If the block raises an error, the temporary file or folder is deleted.
    Only one process at a time may write to `path`. What a killed process left at the temporary path is deleted first.
    """
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove(partial)
    try:
        yield partial
        if path.is_dir():
            shutil.rmtree(path)
        partial.replace(path)
    finally:
        _remove(partial)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
