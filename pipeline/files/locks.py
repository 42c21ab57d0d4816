"""Hold locks on files. The kernel releases a lock when the process that holds the lock ends, for whatever reason."""

import contextlib
import errno
import fcntl
from collections.abc import Iterator
from pathlib import Path

AT_WORK = Path(".cache/locks/at_work")
_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of some network file systems


@contextlib.contextmanager
def alone(path: Path, waits: bool = True, shared: bool = False) -> Iterator[None]:
    """Hold a lock on the file `path` inside the block. Hold none on a file system that has no locks.

    Args:
        path: the file; created if it does not exist.
        waits: whether to wait until other processes release the lock.
        shared: whether other processes that also pass True may hold the lock at the same time.

    Raises:
        BlockingIOError: another process holds the lock, and `waits` is False.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("w") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waits:
                raise
            print("waiting for another command, which makes the same", flush=True)
            fcntl.flock(file, kind)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
        yield


def at_work() -> contextlib.AbstractContextManager[None]:
    """Return a context manager that holds a lock. All commands that work on the study in this folder share the lock.

    While any command holds the lock, no command replaces params.yaml.
    """
    return alone(AT_WORK, shared=True)
