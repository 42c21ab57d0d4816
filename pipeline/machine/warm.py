"""Fork the processes of runs from a warm one, which has imported the engine: that saves each run the seconds of it.

A warm process computes nothing itself, because an engine that has computed can't be forked (tensorflow #2448). It ends
with the command that it belongs to, and its children with it.
"""

import contextlib
import ctypes
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

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
            listener.bind(f"{self._folder}/{name}")
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
        with selectors.DefaultSelector() as selector:
            selector.register(self._theirs, selectors.EVENT_READ)
            for listener in listeners:
                selector.register(listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == self._theirs:
                        for listener in listeners:
                            listener.close()
                        return
                    listener = key.fileobj  # type: ignore[assignment]
                    selector.unregister(listener)
                    self._running.append(
                        subprocess.Popen(
                            [*listeners.pop(listener), str(listener.fileno())],
                            stdin=self._theirs,
                            pass_fds=[listener.fileno()],
                            env=os.environ | {"PYTHONUNBUFFERED": "1"},
                        )
                    )
                    listener.close()  # it has the only one now: where it ends, whoever asks is refused at once


def serve(listener: socket.socket, make: Callable[[Connection], None]) -> None:
    """Fork a child that calls `make` for each process that asks, until standard input ends.

    Args:
        make: is given a connection to the process that asked.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listener:
                    asking, _ = listener.accept()
                    pipe, *output = socket.recv_fds(asking, 1, 3)[1]
                    this = os.getpid()
                    if not (child := os.fork()):
                        _be_child(this, pipe, output, make)
                    for each in (pipe, *output):
                        os.close(each)
                    handle = os.pidfd_open(child)
                    with contextlib.suppress(OSError):  # it has ended in the meantime
                        socket.send_fds(asking, [str(child).encode()], [handle])
                    selector.register(handle, selectors.EVENT_READ, (child, asking))
                else:
                    child, asking = key.data
                    status = os.waitpid(child, 0)[1]
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    with asking, contextlib.suppress(OSError):
                        asking.send(str(status).encode())


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
    handle: int | None = None
    asked: socket.socket | None = None

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.handle is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self.handle, number)

    def wait(self) -> int:
        """Wait for its end and return its status as `os.waitpid` does."""
        if self.asked is None:
            return os.waitpid(self.pid, 0)[1]
        status = self.asked.recv(16)
        return int(status) if status else signal.SIGKILL  # it ends so with the warm process


def ask(name: str) -> Child | None:
    """Have the warm process `name` fork a child, or return None where there is none."""
    if not os.environ.get(FOLDER):
        return None
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = Pipe()
    try:
        asked.connect(str(Path(os.environ[FOLDER], name)))
        with theirs:
            socket.send_fds(asked, [b"."], [theirs.fileno(), 1, 2])
        pid, handles, _, _ = socket.recv_fds(asked, 16, 1)
    except OSError:
        return None
    return Child(int(pid), ours, handles[0], asked) if handles else None
