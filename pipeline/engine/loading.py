"""Load an engine silently, without the packages that it imports but does not need."""

import contextlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import InputError


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Redirect file descriptor 2 to /dev/null inside the block, because libraries write to it while they load."""
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


def check_installed(*packages: str) -> None:
    """Raise `InputError` if Python would import a package from a place where it is not installed.

    A run's identity and record would then name a version other than that of the imported code.
    """
    for package in packages:
        spec = importlib.util.find_spec(package)
        places = set()
        for distribution in (package, f"{package}-cpu"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                place = importlib.metadata.distribution(distribution).locate_file(package)
                places.add(Path(str(place)).resolve())
        if spec and spec.origin and (folder := Path(spec.origin).resolve().parent) not in places:
            raise InputError(
                f"engine: {package} is imported from {folder}, which is not where it is installed "
                f"({', '.join(map(str, places)) or 'nowhere'}). Records would name another version. Remove that folder "
                "from PYTHONPATH, or install it as a package."
            )
