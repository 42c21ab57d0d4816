"""Write down which files a stage opens. Python imports this first where `tests/engines/test_pipeline.py` says so.

A line each: the stage's command, as DVC knows it, and a file that it, or a process it started, opened to read.
"""

import os
import sys
from typing import Any


def _write_down(folder: str) -> None:
    command = os.environ.setdefault("OPENED_BY", " ".join(("exec python", *sys.orig_argv[1:])))  # inherited by children
    lines = os.open(f"{folder}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or isinstance(arguments[0], int) or arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path not in seen:
            seen.add(path)
            os.write(lines, f"{command}\t{path}\n".encode())

    sys.addaudithook(hook)


# Of DVC itself and of what it asks of git nothing is written down.
if "OPENED_FOLDER" in os.environ and ("OPENED_BY" in os.environ or any("stages." in word for word in sys.orig_argv)):
    _write_down(os.environ["OPENED_FOLDER"])
