"""Load an engine silently, without the packages that it imports just in case."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Redirect file descriptor 2 to /dev/null, because libraries write to it while they load."""
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
    """Hide `packages` from every import inside the block, unless they are already loaded.

    Hidden packages can be imported again afterwards.
    """
    absent = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: Python finds no such module
    try:
        yield
    finally:
        for package in absent:
            sys.modules.pop(package, None)
