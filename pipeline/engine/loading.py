"""Load an engine silently, without packages that no run needs, and only from the place where it is installed."""

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
    """Redirect file descriptor 2 (stderr) to /dev/null inside the block, because libraries print while they load."""
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
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None makes an import fail
    try:
        yield
    finally:
        for package in absent:
            sys.modules.pop(package, None)


def check_installed(*packages: str) -> None:
    """Raise `InputError` if Python would import one of `packages` from a folder other than the installed package's.

    A run's identity and record name the version of the installed package, but the imported code could be of another
    version.
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
