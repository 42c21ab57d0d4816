"""The memory that a process takes on top of what it had before, in a process of its own."""

import subprocess
import sys

MIB = 2**20
SCRIPT = """
from pipeline.machine import own_memory
before = bytearray(b"x") * (200 * 2**20)
own_memory.begin()
start = own_memory.peak_bytes()
taken = bytearray(b"x") * (100 * 2**20)
del taken
peak = own_memory.peak_bytes()
own_memory.forget_peak()
print(start, peak, own_memory.peak_bytes())
"""


def test_only_memory_taken_after_begin_counts_and_a_peak_stays_until_reset():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    start, peak, forgotten = (int(text) / MIB for text in done.stdout.split())
    assert start < 5
    assert 99 < peak < 110
    assert forgotten < 10
