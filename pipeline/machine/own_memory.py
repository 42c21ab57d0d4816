"""Measure the memory that a process takes from some moment on, beside what it had taken before."""

import contextlib
import re
from pathlib import Path

_before_bytes = 0


def begin() -> None:
    """Count from now on: the interpreter, the engine and the data that are there already are nobody's model."""
    global _before_bytes
    _before_bytes = _resident("VmRSS")
    forget_peak()


def forget_peak() -> None:
    """Let the peak be what is taken now. Where the kernel does not allow it, the peak stays that of the process."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): resets the peak resident set


def peak_bytes() -> int:
    """Return the largest resident set since `forget_peak`, less what was resident when `begin` was called."""
    return max(_resident("VmHWM") - _before_bytes, 0)


def _resident(field: str) -> int:
    """Return a field of this process's status (proc(5)), in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0
