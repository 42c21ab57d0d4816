"""Hold the commands that DVC and make run. Each parses its arguments and calls the library."""

import os
import sys

# `python -m` puts the working directory first on the path of imports. Where that is another folder than the project's,
# say the one that an archive was unpacked into, nothing is imported from it, beginning with the next lines.
if sys.path[:1] == [os.getcwd()] and not os.path.samefile(os.getcwd(), os.path.join(os.path.dirname(__file__), "..")):
    del sys.path[0]

# isort: split
import argparse
import contextlib
import errno
import io
from collections.abc import Callable, Iterator
from pathlib import Path

from pipeline.errors import InputError, UnfinishedRunError
from pipeline.files.characters import escape_deceptive


def check_folder(folder: Path) -> None:
    """Refuse a folder whose path PATH, PYTHONPATH and LD_LIBRARY_PATH would take for two."""
    if ":" in str(folder):
        raise InputError(f"{folder}: a path with a colon can't be searched for programs or modules. Rename the folder")


def run(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> None:
    """Call `main` with the parsed arguments, and end as `ending_in_words` does."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # × and − are printed as what they are, or escaped
            stream.reconfigure(errors="backslashreplace")
    with ending_in_words():
        check_folder(Path.cwd())
        main(parser.parse_args())


@contextlib.contextmanager
def ending_in_words() -> Iterator[None]:
    """End a fault of the input in its message and exit status 2.

    A full disk ends in exit status 1: finished runs are whole, and the same command goes on from there.
    """
    try:
        yield
    except InputError as error:
        print(f"error: {escape_deceptive(str(error))}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(
            f"error: {error.strerror}. Make room, then run the same command: what is finished stays.", file=sys.stderr
        )
        sys.exit(1)
    except UnfinishedRunError as interruption:
        print(f"interrupted: {interruption}. The same command goes on from there.", file=sys.stderr)
        sys.exit(os.EX_TEMPFAIL)
    except KeyboardInterrupt:
        sys.exit(130)
