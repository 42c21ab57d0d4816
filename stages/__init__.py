"""Provide the commands that DVC and make run. Each command parses its arguments and calls functions of `pipeline`."""

import os
import sys

# `python -m` puts the working directory first on the import path. If the working directory is not the project's folder
# but, for example, an unpacked archive, remove it from the path before Python imports anything from it.
if sys.path[:1] == [os.getcwd()] and not os.path.samefile(os.getcwd(), os.path.join(os.path.dirname(__file__), "..")):
    del sys.path[0]

# isort: split
import argparse
import errno
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pipeline.errors import InputError
from pipeline.machine.processes import end_with_starter


class Interrupted(BaseException):
    """Report a signal that ends the command. Like KeyboardInterrupt, this is not an `Exception`."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def run(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> None:
    """Call `main` with the parsed arguments, and turn the errors that users can fix into messages and exit statuses.

    The status is 2 for an `InputError`, 1 for a full disk, and 128 plus the signal's number if a signal ends the
    command. Unless SIGHUP is ignored, the command also ends when the process that started it ends.
    """
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` ignores SIGHUP, to outlive its shell
        end_with_starter(signal.SIGTERM)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        main(parser.parse_args())
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the program that reads the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(
            f"error: {error.strerror}. Make room, then run the same command: what is finished stays.", file=sys.stderr
        )
        sys.exit(1)
    except Interrupted as interruption:
        print(
            f"interrupted ({interruption}): what is finished stays, and the same command goes on from there.",
            file=sys.stderr,
        )
        sys.exit(128 + interruption.number)


@contextmanager
def unedited(*paths: Path) -> Iterator[None]:
    """Raise `InputError` at the end of the block if one of the files at `paths` was edited during the block.

    Without this error, DVC would assume that the command read the edited file.
    """
    before = [path.read_bytes() if path.exists() else None for path in paths]
    yield
    for path, content in zip(paths, before, strict=True):
        if (path.read_bytes() if path.exists() else None) != content:
            raise InputError(f"{path} was edited while this command worked. Run the same command again.")


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)
