"""The two tables of a comparison, with the values that a test gives."""

import math

from pipeline.comparison.tables import RUN_COLUMNS, Row, Tables, hardware_cells, pair_row
from pipeline.machine.hardware import Hardware
from pipeline.records.blocks import REPEAT
from pipeline.statistics.intervals import Estimate

CPU = Hardware("cpu", "Example CPU", None)
PAIR = {
    "benchmark": "wide",
    "baseline": "float32",
    "candidate": "mixed",
    "num_seeds": 3,
    "num_failed_baseline": 0,
    "num_failed_candidate": 0,
    "num_diverged_baseline": 0,
    "num_diverged_candidate": 0,
    "baseline_accuracy": 0.9,
    "candidate_accuracy": 0.899,
    "difference_pp": Estimate(-0.1, -0.3, 0.1),
    "p_different": 0.4,
    "margin_pp": 1.0,
    "p_equivalent": 0.02,
    "outcome": "inconclusive",
    "num_candidates": 2,
    "num_launches": 3,
    "memory_ratio": Estimate(0.5, 0.48, 0.52),
}


def between(low: float, high: float, value: float | None = None) -> Estimate:
    """A ratio with this interval: by default the interval's geometric middle."""
    return Estimate(value or math.sqrt(low * high), low, high)


def pair(hardware: Hardware = CPU, **cells) -> Row:
    speeds = {"speedup": Estimate(1.5), "epoch_speedup": between(1.01, 1.03)}
    return pair_row(PAIR | speeds | hardware_cells(hardware, hardware.name) | cells)


def run(variant: str, seed: int, hardware: Hardware = CPU, **cells) -> Row:
    """A completed run; at seeds 0 to 2 accuracies are such that one more falls in [0.88, 0.92]."""
    accuracy = 0.9 + 0.0040254 * (seed - 1)
    of_run = {"benchmark": "wide", "variant": variant, "seed": seed, "outcome": "completed", "test_accuracy": accuracy}
    of_run |= {"validation_accuracy": accuracy, "test_loss": 0.5, "other_cpu_share": 0.02, "num_test_examples": 10_000}
    return Row(**dict.fromkeys(RUN_COLUMNS) | of_run | hardware_cells(hardware, hardware.name) | cells)


def tables(
    low: float | None = None,
    high: float | None = None,
    *,
    again: tuple = (0.97, 1.05, 1.01),
    runs: list[Row] | None = None,
    hardware: Hardware = CPU,
    **cells,
) -> Tables:
    """The mixed policy beside float32, and float32 beside itself; `low` and `high` are those of the speedup."""
    speed = {} if low is None else {"speedup": between(low, high)}
    of_itself = {"candidate": REPEAT, "num_seeds": None, "difference_pp": Estimate(), "speedup": between(*again)}
    made = [run(name, seed, hardware) for name in ("float32", "mixed") for seed in range(3)]
    return Tables(made if runs is None else runs, [pair(hardware, **speed | cells), pair(hardware, **of_itself)])
