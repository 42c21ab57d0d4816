"""Fork the processes of runs from a warm one, which has imported the engine: that saves each run the seconds of it.

A warm process computes nothing itself, because an engine that has computed can't be forked (tensorflow #2448). It ends
with the command that it belongs to, and its children with it.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe, connection
from multiprocessing.connection import Connection
from typing import NamedTuple, cast

FOLDER = "WARM_PROCESSES"  # the environment variable that names the folder of their sockets
_PR_SET_PDEATHSIG = 1


class WarmProcesses:
    """Offer warm processes to this process's descendants while the block runs. Each starts when it is first asked for.

    Args:
        commands: what starts each, by its name. The number of the socket that it serves is added as the last word.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self._commands = commands
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="warm-")  # which nobody else may enter
        # They read from one end until nobody has the other: this process alone, however it ends.
        self._theirs, self._ours = os.pipe()
        listeners = {}
        for name, command in self._commands.items():
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                listener.bind(f"{self._folder}/{name}")
            except OSError:  # TMPDIR is too long, or its file system has no sockets: then there is none
                listener.close()
                continue
            listener.listen()
            listeners[listener] = command
        os.environ[FOLDER] = self._folder
        self._starter = threading.Thread(target=self._start_when_asked, args=[listeners])
        self._starter.start()

    def __exit__(self, *_: object) -> None:
        del os.environ[FOLDER]
        os.close(self._ours)
        self._starter.join()
        for process in self._running:
            process.wait()
        os.close(self._theirs)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_when_asked(self, listeners: dict[socket.socket, Sequence[str]]) -> None:
        while self._theirs not in (asked := connection.wait([self._theirs, *listeners])):
            for listener in cast(list[socket.socket], asked):
                with listener:  # which is closed here: where the process ends, whoever asks is refused at once
                    self._running.append(
                        subprocess.Popen(
                            [*listeners.pop(listener), str(listener.fileno())],
                            stdin=self._theirs,
                            pass_fds=[listener.fileno()],
                            env=os.environ | {"PYTHONUNBUFFERED": "1"},
                        )
                    )
        for listener in listeners:
            listener.close()


def serve(listener: socket.socket, make: Callable[[Connection], None]) -> None:
    """Fork a child that calls `make` for each process that asks, one after the other, until standard input ends.

    Args:
        make: is given a connection to the process that asked.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while sys.stdin.fileno() not in connection.wait([sys.stdin.fileno(), listener]):
        asking, _ = listener.accept()
        with asking:
            _fork_for(asking, make)


def _fork_for(asking: socket.socket, make: Callable[[Connection], None]) -> None:
    """Fork a child for `asking`, tell its number and in the end its status, and send it the signals asked for.

    No other process may: the number of a child that has ended stays its own until this one has its status.
    """
    pipe, *output = socket.recv_fds(asking, 1, 3)[1]
    ended, alive = Pipe(duplex=False)  # the child alone has the other end
    this = os.getpid()
    if not (child := os.fork()):
        _be_child(this, pipe, output, make)
    alive.close()
    for each in (pipe, *output):
        os.close(each)
    with ended:
        _tell(asking, child)
        stdin, number = sys.stdin.fileno(), 0
        while number != signal.SIGKILL and ended not in (ready := connection.wait([stdin, asking, ended])):
            if stdin in ready:
                return  # to end, and the child with this process
            number = _hear(asking)
            os.kill(child, number)
        _tell(asking, os.waitpid(child, 0)[1])


def _tell(other: socket.socket, number: int) -> None:
    with contextlib.suppress(ConnectionError):  # it has ended
        other.send(b"%d" % number)


def _hear(other: socket.socket) -> int:
    """Return the number that the other process tells; one that has ended tells SIGKILL."""
    with contextlib.suppress(ConnectionError):
        return int(other.recv(16) or signal.SIGKILL)
    return signal.SIGKILL


def _be_child(parent: int, pipe: int, output: Sequence[int], make: Callable[[Connection], None]) -> None:
    """Call `make` as a process of whoever asked would, and end."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, of in enumerate((nothing, *output)):
            os.dup2(of, number)
        make(Connection(pipe))
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Child(NamedTuple):
    """A process that was forked for this one, by itself or by a warm process that `asked` is a socket of."""

    pid: int
    pipe: Connection
    asked: socket.socket | None = None

    def send(self, number: int) -> None:
        if self.asked:
            _tell(self.asked, number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for its end and return its status as `os.waitpid` does."""
        return _hear(self.asked) if self.asked else os.waitpid(self.pid, 0)[1]


def ask(name: str) -> Child | None:
    """Have the warm process `name` fork a child, or return None where there is none."""
    if not (folder := os.environ.get(FOLDER)):
        return None
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        asked.connect(f"{folder}/{name}")
        ours, theirs = Pipe()
        with theirs:
            socket.send_fds(asked, [b"."], [theirs.fileno(), 1, 2])
        return Child(int(asked.recv(16)), ours, asked)
    except (OSError, ValueError):  # nobody is there, or ended before it had forked
        asked.close()
        return None
