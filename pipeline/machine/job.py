"""End a process together with the command that it belongs to, however that command ended.

`make` waits for its children when it is interrupted. DVC passes no signal on. A process that is killed can tell nobody.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def ancestors() -> list[tuple[int, bool]]:
    """Return the ancestors of this process in its command, and whether each is a `make` that was interrupted.

    A command's processes are in one group, from its outermost `make`, DVC or Python inwards. The shells outside of that
    may end: `nohup make repro &` outlives the script or the login that started it.
    """
    found: list[tuple[int, bool]] = []
    num_inside = 0
    pid = os.getppid()
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it ended while this looked
        while pid > 1 and os.getpgid(pid) == os.getpgrp():
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            # It takes its handler of SIGINT away, then waits for children that may know nothing of the signal.
            caught = int(status.get("SigCgt", "0"), 16) >> (signal.SIGINT - 1) & 1
            found.append((pid, status["Name"] == "make" and not caught))
            if status["Name"].startswith(("make", "dvc", "python")):
                num_inside = len(found)
            pid = int(status["PPid"])
    return found[:num_inside]


def _changed(before: list[tuple[int, bool]]) -> bool:
    try:
        return ancestors() != before
    except OSError:  # too many open files, say: no reason to end
        return False


def when_it_ends(tell: Callable[[], None]) -> None:
    """Call `tell`, in a thread, within about a second of the end of an ancestor."""
    before = ancestors()

    def watch() -> None:
        while not _changed(before):
            time.sleep(1)
        tell()

    threading.Thread(target=watch, daemon=True).start()


def end_with_it(words: str, first: Callable[[], None] = lambda: None) -> None:
    """End this process at once on SIGHUP, SIGINT and SIGTERM, and within about a second of the end of an ancestor.

    It calls `first` and says `words` then. Python runs no handler before a call of the engine returns, which may take
    minutes.
    Call this before there are threads: they inherit blocked signals, so that one thread receives them.
    """
    signals = {name for name in ENDING if signal.getsignal(name) != signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    before = ancestors()

    def watch() -> None:
        number = None
        while number is None and not _changed(before):
            received = signal.sigtimedwait(signals, 1)
            # A process that was stopped and goes on (Ctrl-Z and `fg`) receives one whose number Python made up.
            number = received.si_signo if received and received.si_signo in signals else None
        try:
            first()
            os.write(sys.stderr.fileno(), f"interrupted: {words}\n".encode())
        finally:  # whoever read it may be gone
            os._exit(128 + (number or signal.SIGTERM))

    threading.Thread(target=watch, daemon=True).start()
