"""Each engine in a process of its own, because a process has one."""

import json
import os
import subprocess
import sys
from pathlib import Path

from conftest import REPOSITORY
from projects import run

ENGINES = ("tensorflow", "jax")
PROBE = REPOSITORY / "tests" / "engines" / "engine_probe.py"


def start(engine: str, *command: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = {"KERAS_BACKEND": engine, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"}
    done = run(REPOSITORY, sys.executable, *command, env=os.environ | variables | paths)
    assert done.returncode == 0 or not check, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def probe(engine: str, function: str, folder: Path, *numbers: int):
    arguments = [str(PROBE), function, str(folder), *map(str, numbers)]
    return json.loads(start(engine, *arguments).stdout.splitlines()[-1])
