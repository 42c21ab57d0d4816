"""Lock what one process at a time may make. The kernel frees the lock of a process that has ended."""

import contextlib
import datetime
import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import InputError

LOCKS = Path(".cache/locks")
STUDY = LOCKS / "study.lock"
_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # some network file systems


@contextlib.contextmanager
def alone(path: Path, what: str, patience_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock `path` while the block runs.

    Args:
        what: is locked, in words for the message.
        patience_seconds: how long to wait for a process that is about to end.

    Raises:
        InputError: another process holds it; the message names that process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.2)
                    continue
                file.seek(0)
                holder = file.read().strip() or "another process"
                raise InputError(f"{what} is being made by {holder}. Wait until it has ended, or end it.") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS_HERE:
                    raise
                break
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {now}\n")
        file.flush()
        yield


def refuse_while_a_study_runs() -> None:
    """Raise `InputError` where `make repro` is at work in this folder."""
    if STUDY.exists():
        with alone(STUDY, "The study of this folder"):
            pass
