"""Load the user's code that a study names, and note the files that this code reads. This module needs no engine."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from unittest import mock

from pipeline.errors import InputError
from pipeline.files.code import check_exists


def load_module(module: str, source: Path) -> ModuleType:
    """Import `module` from `source`, a file or folder. Add the parent folder of `source` to Python's import path.

    Raises:
        InputError: `source` does not exist, the module can't be imported, or Python finds a module of this name outside
            `source`.
    """
    check_exists(source)
    folder, before = str(source.resolve().parent), sys.dont_write_bytecode
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that the folder hides no installed package
        importlib.invalidate_caches()
    sys.dont_write_bytecode = True  # to DVC, compiled files in `source` would look like a change
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise InputError(f"{module} can't be imported from {source}: {in_words(error)}") from error
    finally:
        sys.dont_write_bytecode = before
    file = Path(found.__file__ or "").resolve()
    if not file.is_relative_to(source.resolve()):
        raise InputError(
            f"{module} is {file}, outside {source}, so an edit there would not retrain anything. "
            "Name the file or folder that holds your module as `source`, or rename the module."
        )
    return found


def in_words(error: BaseException) -> str:
    """Describe an error that the user's code raised."""
    if isinstance(error, SystemExit):
        return f"it ends the process, with status {error.code}"
    return f"{type(error).__name__}: {error}"


_read: set[str] | None = None  # inside the block of `files_read`, the paths of the files opened so far
_add_hook = cache(lambda: sys.addaudithook(_note))  # added only once, because Python can't remove an audit hook


@contextmanager
def files_read() -> Iterator[set[str]]:
    """Yield a set that collects the path of each file that Python or h5py opens for reading inside the block.

    If Python opens a compiled file in `__pycache__`, the set gets the path of the source file. The paths from h5py are
    added at the end of the block.
    """
    global _read
    _add_hook()
    _read = found = set[str]()
    try:
        with _watched_h5py(found):
            yield found
    finally:
        _read = None


@contextmanager
def _watched_h5py(found: set[str]) -> Iterator[None]:
    """Add to `found` the paths of files that h5py opens, such as Keras's weights.

    h5py opens files in C code, which Python's audit hooks do not see.
    """
    if "h5py" not in sys.modules:
        yield
        return
    h5f = sys.modules["h5py"].h5f
    with mock.patch.object(h5f, "open", wraps=h5f.open) as opened:
        yield
    found |= {os.path.realpath(os.fsdecode(call.args[0])) for call in opened.call_args_list}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike) or _read is None:
        return
    if isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE != os.O_WRONLY:
        folder, cached, name = os.path.realpath(os.fsdecode(arguments[0])).rpartition("/__pycache__/")
        _read.add(f"{folder}/{name.partition('.')[0]}.py" if cached else name)
