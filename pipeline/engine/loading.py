"""Load an engine silently, without the packages that it imports just in case."""

import contextlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pipeline.errors import InputError


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


def check_installed(*modules: ModuleType) -> None:
    """Refuse a package that Python imports from elsewhere than where it is installed.

    The version that a run's identity and record hold would not be that of the imported code.
    """
    for module in modules:
        folder = Path(str(module.__file__)).resolve().parent
        installed = set()
        for distribution in (module.__name__, f"{module.__name__}-cpu"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found = importlib.metadata.distribution(distribution).locate_file(module.__name__)
                installed.add(Path(str(found)).resolve())
        if folder not in installed:
            raise InputError(
                f"engine: {module.__name__} is imported from {folder}, which is not where it is installed "
                f"({', '.join(map(str, installed)) or 'nowhere'}). Records would name another version. Remove that "
                "folder from PYTHONPATH, or install it as a package."
            )
