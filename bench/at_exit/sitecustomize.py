"""Python imports this before anything else where `bench.processes` says so: a process leaves its peak behind.

The command stays as it is. The kernel hands a parent's peak on to its children's resource usage, and a process that has
ended has no status any more; so it writes its own down, last of all that it does.
"""

import atexit
import os
from typing import NoReturn


def _leave_status(folder: str) -> None:
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123  pathlib would be imported for this
        text = status.read()
    with open(f"{folder}/{os.getpid()}", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(text)


def _watch(folder: str) -> None:
    leave = os._exit

    def leave_status_first(status: int) -> NoReturn:
        _leave_status(folder)
        leave(status)

    atexit.register(_leave_status, folder)
    os._exit = leave_status_first  # by which a process ends that skips what `atexit` does


if "BENCH_STATUS_FOLDER" in os.environ:
    _watch(os.environ["BENCH_STATUS_FOLDER"])
