"""A process that trains one variant, a block at a time, as it is told to."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, cast

from pydantic import BaseModel, ConfigDict

from pipeline.errors import InputError
from pipeline.records.schema import Outcome

MAX_MESSAGE = 2000  # characters of what a process said last


class Block(BaseModel):
    """The message of a process after a block of training. `num_steps` and `skipped_steps` count from its start.

    `other_cpu_share`, in [0, 1], is the share of the machine's CPU time that other processes had; unknown is None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    outcome: Outcome
    seconds: float | None = None
    num_steps: int = 0
    skipped_steps: int = 0
    loss_scale: float | None = None
    loss: float | None = None
    peak_memory_bytes: int | None = None
    peak_memory_kind: str | None = None
    other_cpu_share: float | None = None


Train = Callable[[int], Block]


@contextlib.contextmanager
def worker(command: Sequence[str]) -> Iterator[Train]:
    """Start a Python module in a process of its own, with the arguments of `command`; end it at the end.

    The function that this gives has it train a number of images. The process reads that number, a line each, and
    answers with a `Block` in JSON. `InputError` where it ended for another reason than memory.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        stdin, stdout = cast(IO[str], process.stdin), cast(IO[str], process.stdout)

        def train(num_images: int) -> Block:
            with contextlib.suppress(BrokenPipeError):  # what it wrote before it ended says why
                print(num_images, file=stdin, flush=True)
            if answer := stdout.readline():
                return Block.model_validate_json(answer)
            if process.wait() == -9:  # the system took it for its memory
                return Block(outcome="out_of_memory")
            errors.seek(0)
            raise InputError(message(errors.read()))

        try:
            yield train
        finally:
            process.kill()  # between blocks it has nothing to lose


def message(errors: str) -> str:
    """Return what a stage that failed wrote on standard error, without its first word."""
    return errors[-MAX_MESSAGE:].strip().removeprefix("error: ")
