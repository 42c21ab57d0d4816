"""Measure a command: seconds from its start to its end, and its peak resident memory."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

REPOSITORY = Path(__file__).parent.parent
LAUNCHER = Path(__file__).with_name("launch.py")
Side = TypeVar("Side")


class Cost(NamedTuple):
    """Hold what a process took. `peak_resident_bytes` is the largest of its own peak and those of its children."""

    seconds: float
    peak_resident_bytes: int
    printed: str


def measure(*command: str, cwd: Path, variables: Mapping[str, str] = MappingProxyType({})) -> Cost:
    """Run `command` in `cwd`, with this repository's packages and these environment variables besides ours.

    Raises:
        RuntimeError: it failed; the text ends with what it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "cost.json")
        done = subprocess.run(
            [sys.executable, "-I", "-S", LAUNCHER, result, *command],
            cwd=cwd,
            env={**os.environ, **variables, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        cost = json.loads(result.read_text(encoding="ascii"))
    return Cost(cost["seconds"], cost["kibibytes"] * 1024, done.stdout)


def in_turn(turn: int, sides: Sequence[Side]) -> Sequence[Side]:
    """Return `sides`, reversed in every other turn: no side always comes where others have warmed the machine."""
    return sides if turn % 2 == 0 else sides[::-1]
