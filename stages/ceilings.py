"""Find the largest batch that each policy fits on this machine's accelerator, every try in a process of its own."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipeline.errors import InputError
from pipeline.machine.hardware import this_machine
from pipeline.study.schema import load_study
from stages import run
from stages.try_batch import DOES_NOT_FIT

CEILINGS = Path("results/ceilings.json")
HIGHEST = 2**20
RESOLUTION = 1 / 32  # of the batch that is found


def largest_batch(fits: Callable[[int], bool], start: int) -> int | None:
    """Return the largest batch size that `fits`, to a relative `RESOLUTION`; None if not even one example does.

    Search by doubling, then by bisection. `fits` must be monotonic. No size above `HIGHEST` is tried.
    """
    low, high = 0, start
    while high <= HIGHEST and fits(high):
        low, high = high, high * 2
    high = min(high, HIGHEST + 1)
    while high - low > max(1, int(low * RESOLUTION)):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low or None


def fits(benchmark: str, variant: str, batch_size: int) -> bool:
    """Return whether two training steps at `batch_size` fit. Raise `InputError` if they fail for another reason."""
    command = [sys.executable, "-m", "stages.try_batch", "--benchmark", benchmark, "--variant", variant]
    done = subprocess.run(
        [*command, "--batch-size", str(batch_size)], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode not in (0, DOES_NOT_FIT, -9):  # −9: the system took the process for its memory
        raise InputError(f"{' '.join(command)} --batch-size {batch_size} failed:\n{done.stderr[-2000:]}")
    print(f"{benchmark} {variant}: {batch_size:,} {'fits' if done.returncode == 0 else 'is too large'}", flush=True)
    return done.returncode == 0


def main(_: argparse.Namespace) -> None:
    study = load_study()
    hardware = this_machine()
    found: dict[str, dict[str, int | None]] = {}
    if hardware.kind != "cpu" and study.runtime != "cpu":  # which has no memory of its own to fill
        for name, benchmark in study.benchmarks.items():
            # One variant a policy: the batch is what is looked for.
            variants = {v.policy: key for key, v in reversed(study.variants_of(name).items()) if not v.tf32}
            found[name] = {
                policy: largest_batch(partial(fits, name, variant), benchmark.batch_size)
                for policy, variant in variants.items()
            }
    CEILINGS.parent.mkdir(exist_ok=True)
    values = {"schema_version": 1, "largest_batch": found}
    CEILINGS.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.ceilings", description=__doc__))
