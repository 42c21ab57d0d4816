"""Measure what the epoch clock itself adds to a time: one wait for a device that has nothing to do.

The clock starts after such a wait and stops after another, so that one of them lies inside. Prints JSON.
"""

import argparse
import json
import time
from statistics import median
from typing import Any

from pipeline.machine.engine_choice import choose_engine


def measure(repeats: int) -> dict[str, Any]:
    """Return the seconds of a wait, and of two looks at the time: medians, and the 99th percentile of waits."""
    from pipeline import engine  # which takes seconds to import

    engine.synchronise()
    waits, looks = [], []
    for _ in range(repeats):
        started = time.perf_counter()
        looked = time.perf_counter()
        engine.synchronise()
        ended = time.perf_counter()
        looks.append(looked - started)
        waits.append(ended - looked)
    return {
        "engine": engine.NAME,
        "repeats": repeats,
        "wait_seconds": median(waits),
        "wait_seconds_99_percent": sorted(waits)[int(0.99 * repeats)],
        "look_seconds": median(looks),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.clock", description=__doc__)
    parser.add_argument("--engine", choices=["tensorflow", "jax"], default="tensorflow")
    parser.add_argument("--repeats", type=int, default=10_000)
    arguments = parser.parse_args()
    choose_engine(arguments.engine)
    print(json.dumps(measure(arguments.repeats)))
