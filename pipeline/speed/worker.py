"""A process that trains one variant, a block at a time, as it is told to."""

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple, cast

from pipeline.errors import InputError
from pipeline.records.blocks import Block

MAX_MESSAGE = 2000  # characters of what a process said last


class Task(NamedTuple):
    """Tell a process to train so many steps and perhaps validate then."""

    num_steps: int
    with_validation: bool = False


Train = Callable[[Task], Block]


@contextlib.contextmanager
def worker(command: Sequence[str], max_seconds: float | None = None) -> Iterator[Train]:
    """Start a Python module in a process of its own, with the arguments of `command`; end it at the end.

    The function that this gives has it train a task. The process reads that as a line of JSON, and answers with a
    `Block` as another. A process that takes longer than `max_seconds` for an answer is ended, as too slow.
    `InputError` where it ended for another reason than that or its memory.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", *command],  # a crash leaves its traceback
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        stdin, stdout = cast(IO[str], process.stdin), cast(IO[str], process.stdout)

        def train(task: Task) -> Block:
            started, timer = time.monotonic(), threading.Timer(max_seconds or 0.0, process.kill)
            if max_seconds:
                timer.start()
            with contextlib.suppress(BrokenPipeError):  # what it wrote before it ended says why
                print(json.dumps(task), file=stdin, flush=True)
            answer = stdout.readline()
            timer.cancel()
            if answer:
                return Block.model_validate_json(answer)
            status = process.wait()
            if status == -9:  # by the timer, or by the system for its memory
                is_late = max_seconds and time.monotonic() - started >= max_seconds
                return Block(outcome="too_slow" if is_late else "out_of_memory")
            errors.seek(0)
            raise InputError(message(errors.read()) or f"{' '.join(command)} ended with status {status}")

        try:
            yield train
        finally:
            process.kill()  # between blocks it has nothing to lose
            with contextlib.suppress(BrokenPipeError):  # what it never read would hide why it ended
                stdin.close()


def message(errors: str) -> str:
    """Return what a stage that failed wrote on standard error, from its own message on where it has one."""
    own = re.search(r"^error: (.*)", errors, re.MULTILINE | re.DOTALL)
    return (own[1] if own else errors)[-MAX_MESSAGE:].strip()
