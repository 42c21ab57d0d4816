"""Processes that each train a variant, a block at a time, as they are told to; those of a launch are forked from one.

So what they all import is imported once a launch.
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple, cast

from pipeline.errors import InputError
from pipeline.records.blocks import Block
from pipeline.records.schema import Outcome

END_SECONDS = 10  # for processes that were killed to give back their memory
ENDED: dict[int, Outcome] = {-signal.SIGALRM: "too_slow", -signal.SIGKILL: "out_of_memory"}  # by exit status
_PR_SET_PDEATHSIG = 1


class Task(NamedTuple):
    """Tell a process to train so many steps and perhaps validate then."""

    num_steps: int
    with_validation: bool = False


Train = Callable[[Task], Block]
TrainTasks = Callable[[str, Iterator[Task], Callable[[Block], None]], None]


@contextlib.contextmanager
def workers(
    variants: Sequence[str], prepare: Callable[[Sequence[str]], None], train: TrainTasks, max_seconds: float = 0.0
) -> Iterator[list[Train]]:
    """Start a process of each of `variants`, and end all at the end.

    There is a function for each that has it train a task. A process that takes longer than `max_seconds` for an answer
    is ended, wherever it is, unless that is 0.

    Args:
        prepare: called with the variants in the process that the others are forked from; a function of a module, as is
            `train`.
        train: called in the process of a variant, once there is a task, with the variant, its tasks, and what answers
            each with a block.

    Raises:
        InputError: that of a process; or one ended for another reason than its time or its memory.
    """
    spawned = get_context("spawn")  # whose memory is laid out anew
    ours, theirs = zip(*(spawned.Pipe() for _ in variants), strict=True)
    launch = spawned.Process(target=_launch, args=(variants, theirs, prepare, train, max_seconds))
    launch.start()
    for pipe in theirs:
        pipe.close()
    joining = threading.Lock()  # of two threads that wait for it, one would not learn how it ended

    def ask(variant: str, pipe: Connection, task: Task) -> Block:
        with contextlib.suppress(OSError):  # it has ended, and this says how
            pipe.send(task)
        try:
            answer: Block | InputError | int = pipe.recv()
        except (OSError, EOFError):  # all of them have
            with joining:
                launch.join()
            answer = cast(int, launch.exitcode)
        if isinstance(answer, Block):
            return answer
        if isinstance(answer, int) and answer in ENDED:
            return Block(outcome=ENDED[answer])
        ended = f"the process that trained {variant} ended with status {answer}; what it said stands above"
        raise answer if isinstance(answer, InputError) else InputError(ended)

    try:
        yield [partial(ask, variant, pipe) for variant, pipe in zip(variants, ours, strict=True)]
    finally:
        launch.kill()  # between blocks there is nothing to lose
        launch.join()
        for pipe in ours:
            with pipe, contextlib.suppress(OSError, EOFError):
                while pipe.poll(END_SECONDS):
                    pipe.recv()


def _launch(
    variants: Sequence[str],
    pipes: Sequence[Connection],
    prepare: Callable[[Sequence[str]], None],
    train: TrainTasks,
    max_seconds: float,
) -> None:
    """Fork a process for each variant, and tell how each has ended."""
    _end_with_parent()
    faulthandler.enable()
    signal.setitimer(signal.ITIMER_REAL, max_seconds)
    try:
        prepare(variants)
    except InputError as error:
        for pipe in pipes:
            pipe.send(error)
        return
    signal.setitimer(signal.ITIMER_REAL, 0)
    waiting = {}
    for variant, pipe in zip(variants, pipes, strict=True):
        child = get_context("fork").Process(target=_work, args=(variant, pipe, train, max_seconds))
        try:
            child.start()
        except OSError:  # there is no memory for another
            pipe.send(-signal.SIGKILL)
        else:
            waiting[child.pid] = pipe
    while waiting:
        pid, status = os.wait()
        with contextlib.suppress(OSError):  # whoever asked has ended
            waiting.pop(pid).send(os.waitstatus_to_exitcode(status))


def _work(variant: str, pipe: Connection, train: TrainTasks, max_seconds: float) -> None:
    _end_with_parent()
    tasks = _tasks(pipe, max_seconds)
    if first := next(tasks, None):  # it takes no memory before
        try:
            train(variant, chain([first], tasks), pipe.send)
        except InputError as error:
            pipe.send(error)


def _end_with_parent() -> None:
    """Have the kernel end this process with the one that started it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != cast(BaseProcess, parent_process()).pid:  # it has ended in the meantime
        os._exit(1)


def _tasks(pipe: Connection, max_seconds: float) -> Iterator[Task]:
    """Receive tasks until nobody is left who could send one; SIGALRM ends this process in one that takes too long."""
    with contextlib.suppress(OSError, EOFError):
        while True:
            task = pipe.recv()
            signal.setitimer(signal.ITIMER_REAL, max_seconds)
            yield task
            signal.setitimer(signal.ITIMER_REAL, 0)
