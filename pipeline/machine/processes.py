"""Start processes, report how each has ended, and end them when the process that started them ends.

A parent process prepares itself once, for example by importing an engine. The parent then forks a child for each piece
of work, so that no child waits for imports. The parent computes nothing itself, because a process whose engine has
computed can't be forked (tensorflow #2448).
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, Self, cast

from pipeline.errors import InputError

_PR_SET_PDEATHSIG = 1
Work = Callable[..., None]  # a module-level function that takes the child's pipe and the arguments sent


class Started(NamedTuple):
    pid: int


class Ended(NamedTuple):
    """Report the exit status of a child, or minus the number of the signal that ended the child."""

    status: int


def end_with_starter(number: int = signal.SIGKILL) -> None:
    """Have the kernel send the signal `number` to this process when the process that started this one ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def limit_seconds(seconds: float) -> None:
    """End this process by SIGALRM `seconds` from now, whatever the process is doing. 0 removes the limit."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def shares(cores: Sequence[int], num_shares: int) -> list[Sequence[int]]:
    """Split the cores into shares of nearly equal size. With fewer cores than shares, each share has all cores."""
    return [cores[place::num_shares] if num_shares <= len(cores) else cores for place in range(num_shares)]


class Line:
    """Ask a parent process for a child, exchange messages with the child, and learn the child's exit status.

    A line has one child at a time.
    """

    def __init__(self, pipe: Connection, parent: BaseProcess, joining: threading.Lock) -> None:
        self._pipe, self._parent, self._joining = pipe, parent, joining
        self.pid: int | None = None  # of the child, from its start to its end

    def start(self, work: Work, *arguments: Any) -> None:
        """Have the parent fork a child that calls `work` with the child's pipe and `arguments`."""
        self.pid = None
        self.send((work, arguments))

    def send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # parent and child have ended; `receive` tells the status
            self._pipe.send(message)

    def receive(self) -> Any:
        """Return the child's next message, or `Ended` after the last message.

        If the parent has ended, and with it the child, return `Ended` with the parent's status.

        Raises:
            InputError: the child or the parent's `prepare` raised it.
        """
        try:
            message = self._pipe.recv()
        except (OSError, EOFError):  # the parent has ended, and its children with it
            with self._joining:  # if two threads waited for the parent, one would not learn its status
                self._parent.join()
            return Ended(cast(int, self._parent.exitcode))
        if isinstance(message, Started):
            self.pid = message.pid
            return self.receive()
        if isinstance(message, Ended):
            self.pid = None
        if isinstance(message, InputError):
            raise message
        return message

    def messages(self) -> Iterator[Any]:
        """Yield the messages of the child; the last is `Ended`."""
        while True:
            yield (message := self.receive())
            if isinstance(message, Ended):
                return

    def end(self) -> None:
        """Kill the child, if there is one, and wait until the child has ended and its memory is free."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        while self.pid and not isinstance(self.receive(), Ended):
            pass


class Parent:
    """Start a process that prepares itself once and then forks children on request.

    Each of the `lines` connects the caller with one child at a time.

    Args:
        num_lines: the largest number of children that may live at once.
        prepare: a module-level function that the parent calls with `arguments` before it forks any child. If `prepare`
            raises an `InputError`, `Line.receive` raises the same error.
    """

    def __init__(self, num_lines: int, prepare: Callable[..., None], *arguments: Any) -> None:
        spawned = get_context("spawn")  # a fresh process, which inherits no memory from this one
        self._ours, theirs = zip(*(spawned.Pipe() for _ in range(num_lines)), strict=True)
        self._process = spawned.Process(target=_serve, args=(theirs, prepare, arguments))
        self._process.start()
        for pipe in theirs:
            pipe.close()
        joining = threading.Lock()
        self.pid = self._process.pid
        self.lines = [Line(pipe, self._process, joining) for pipe in self._ours]

    @property
    def has_ended(self) -> bool:
        return not self._process.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # the kernel then ends its children
        self._process.join()
        for pipe in self._ours:
            _wait_until_closed(pipe)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in a separate process and return the result. The end of the process frees its memory.

    Raises:
        InputError: `function` raised it, or the process ended with a status other than 0.
    """
    answer: Any = None
    with Parent(1, _nothing) as parent:
        parent.lines[0].start(_answer, function, *arguments)
        for message in parent.lines[0].messages():
            if not isinstance(message, Ended):
                answer = message
            elif message.status:
                raise InputError(f"{function.__name__} ended with status {message.status}; see its output above")
    return answer


def _nothing() -> None:
    pass


def _answer(pipe: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    pipe.send(function(*arguments))


def _serve(pipes: Sequence[Connection], prepare: Callable[..., None], arguments: Sequence[Any]) -> None:
    """Prepare, then fork a child for each request that comes through a pipe. Send `Ended` when the child has ended."""
    end_with_starter()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the starting process gets this signal, too, and ends this one
    faulthandler.enable()
    try:
        prepare(*arguments)
    except InputError as error:
        for pipe in pipes:
            pipe.send(error)
        return
    children: dict[int, tuple[BaseProcess, Connection]] = {}  # by sentinel
    while True:
        busy = [pipe for _, pipe in children.values()]
        for ready in connection.wait([*children, *(pipe for pipe in pipes if pipe not in busy)]):
            if isinstance(ready, int):
                child, pipe = children.pop(ready)
                child.join()
                pipe.send(Ended(cast(int, child.exitcode)))
                continue
            pipe = cast(Connection, ready)
            work, sent = pipe.recv()
            child = get_context("fork").Process(target=_work, args=(pipe, work, sent))
            try:
                child.start()
            except OSError:  # for example, because there is no memory for another child
                pipe.send(Ended(-signal.SIGKILL))
                continue
            children[child.sentinel] = child, pipe


def _work(pipe: Connection, work: Work, sent: Sequence[Any]) -> None:
    end_with_starter()
    pipe.send(Started(os.getpid()))
    try:
        work(pipe, *sent)
    except InputError as error:
        pipe.send(error)


def _wait_until_closed(pipe: Connection) -> None:
    """Wait until no process holds the pipe's other end. Killed processes have then given back their memory."""
    with pipe, contextlib.suppress(OSError, EOFError):
        while True:
            pipe.recv_bytes()
