"""How an engine is loaded: in silence, and without packages that it would only import in case they were wanted."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Sends file descriptor 2, which libraries write to while they are loaded, to nowhere."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@contextlib.contextmanager
def without(*packages: str) -> Iterator[None]:
    """What is imported inside finds none of `packages` but those loaded before, and does without; afterwards they can
    be imported as ever.
    """
    absent = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: Python finds no such module
    try:
        yield
    finally:
        for package in absent:
            sys.modules.pop(package, None)
