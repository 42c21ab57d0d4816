"""Measure the memory that this process takes after it has called `begin`."""

import contextlib
import re
from pathlib import Path

_before_bytes = 0


def begin() -> None:
    """Start counting. Memory that the interpreter, the engine and the data already take does not count."""
    global _before_bytes
    _before_bytes = _resident("VmRSS")
    forget_peak()


def forget_peak() -> None:
    """Reset the peak to the current use. If the kernel does not allow this, the process's earlier peak stays."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): resets the peak resident set


def peak_bytes() -> int:
    """Return the largest resident set since `forget_peak`, minus the resident set at `begin`, in bytes."""
    return max(_resident("VmHWM") - _before_bytes, 0)


def _resident(field: str) -> int:
    """Return a field of this process's status (proc(5)) in bytes, or 0 if the field is missing."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0
