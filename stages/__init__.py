"""The commands DVC runs. Each parses its arguments and calls the library."""

import argparse
import errno
import os
import sys
from collections.abc import Callable

from pipeline.errors import InputError, UnfinishedRunError


def choose_engine(name: str) -> None:
    """Makes `name` the engine of this process; before the first import of `pipeline.engine`."""
    os.environ["KERAS_BACKEND"] = name


def run(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> None:
    """Calls `main` with the parsed arguments; a fault of the input ends in its message and exit status 2.

    So does a full disk, in 1: finished runs are whole, and the same command goes on from there.
    """
    try:
        main(parser.parse_args())
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
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
