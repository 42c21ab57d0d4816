"""Processes that each train a variant, a block at a time, as they are told to."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

from pipeline.errors import InputError
from pipeline.machine.warm import Child, WarmProcesses, ask
from pipeline.records.blocks import Block


class Task(NamedTuple):
    """Tell a process to train so many steps and perhaps validate then."""

    num_steps: int
    with_validation: bool = False


Train = Callable[[Task], Block]


@contextlib.contextmanager
def workers(
    commands: Mapping[str, Sequence[str]], variants: Sequence[tuple[str, str]], max_seconds: float | None
) -> Iterator[list[Train]]:
    """Fork a process for each of `variants` from one of the processes that `commands` start; end all at the end.

    There is a function for each variant that has it train a task. A process that takes longer than `max_seconds` for
    that is ended, as too slow.

    Args:
        commands: what starts each process that others are forked from, by its name.
        variants: the name of the process to fork, and that of the variant, which is the first message.

    Raises:
        InputError: a process ended for another reason than its time or its memory.
    """

    def fork(name: str, variant: str) -> Child:
        child = ask(name)
        if child is None or child.asked is None or child.handle is None:
            raise InputError(f"{' '.join(commands[name])} ended before it trained {variant}: see above")
        opened.enter_context(child.pipe)
        opened.enter_context(child.asked)
        opened.callback(os.close, child.handle)
        opened.callback(child.wait)  # until its memory is given back
        opened.callback(child.send, signal.SIGKILL)  # between blocks it has nothing to lose
        child.pipe.send(variant)
        return child

    def train(variant: str, child: Child, task: Task) -> Block:
        with contextlib.suppress(OSError, EOFError):  # it has ended
            child.pipe.send(task)
            if child.pipe.poll(max_seconds):
                return cast(Block, child.pipe.recv())
            child.send(signal.SIGKILL)
            return Block(outcome="too_slow")
        if (status := child.wait()) == signal.SIGKILL:
            return Block(outcome="out_of_memory")
        raise InputError(f"the process that trained {variant} ended with status {status}: see above")

    with WarmProcesses(commands), contextlib.ExitStack() as opened:
        yield [partial(train, variant, fork(name, variant)) for name, variant in variants]
