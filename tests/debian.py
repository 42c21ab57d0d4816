"""Debian's packages, for tests that need a program of the machine."""

import shutil
import subprocess
import tempfile
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "mixed-precision-tests.lock"  # two tests side by side must not both run apt


def install(program: str, *packages: str) -> None:
    """Installs the packages where the program is missing."""
    if shutil.which(program) is None:
        fetch(*packages)


def fetch(*packages: str) -> None:
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        subprocess.run(["flock", str(LOCK), "apt-get", *command], stdout=subprocess.DEVNULL, check=True)
