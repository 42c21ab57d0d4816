"""What a command costs: seconds from its start to its end, and its own peak resident memory."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

REPOSITORY = Path(__file__).parent.parent
AT_EXIT = Path(__file__).parent / "at_exit"


class Cost(NamedTuple):
    """`peak_resident_bytes` is that of the process itself, its children apart; None for what is not Python on Linux."""

    seconds: float
    peak_resident_bytes: int | None
    printed: str


def measure(
    *command: str, cwd: Path, source: Path = REPOSITORY, variables: Mapping[str, str] = MappingProxyType({})
) -> Cost:
    """Runs `command` in `cwd`, with the packages under `source` and these environment variables besides ours.

    Raises:
        RuntimeError: it failed; the text ends with what it wrote.
    """
    with tempfile.TemporaryDirectory() as name:
        started = time.perf_counter()
        with subprocess.Popen(
            command,
            cwd=cwd,
            env=_environment({**os.environ, **variables}, Path(name), source),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            printed, _ = process.communicate()
            seconds = time.perf_counter() - started
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{printed[-3000:]}")
        return Cost(seconds, _peak_resident_bytes(Path(name, str(process.pid))), printed)


def interleaved(repeats: int, *sides: Sequence[str], cwd: Path, source: Path = REPOSITORY) -> list[list[Cost]]:
    """Each side's costs: the commands take turns, so that what the machine does meanwhile meets all of them."""
    turns = [[measure(*side, cwd=cwd, source=source) for side in sides] for _ in range(repeats)]
    return [list(costs) for costs in zip(*turns, strict=True)]


def _environment(outer: Mapping[str, str], folder: Path, source: Path) -> dict[str, str]:
    paths = os.pathsep.join((str(AT_EXIT), str(source)))
    return {**outer, "PYTHONPATH": paths, "BENCH_STATUS_FOLDER": str(folder)}


def _peak_resident_bytes(status: Path) -> int | None:
    try:
        lines = status.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)
