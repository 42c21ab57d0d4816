"""Simulate how often each interval holds the truth, and each test errs. Print one JSON line a row."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from pipeline.statistics import intervals
from pipeline.statistics.equivalence import num_seeds_needed, power, tost_p_value

NUM_SEEDS = (3, 5, 10)
SPEEDUPS = {"baseline": 1.0, "batch": 1.3, "precision": 1.7, "both": 2.6}  # in the order in which they run
TRUTH = {"speedup": math.log(2.6), "interaction": math.log(2.6 / (1.3 * 1.7))}
MARGIN_PP = 1.0


class World(NamedTuple):
    """Say how times vary: standard deviations of logarithms, and the chance that something makes a run 30 % slower."""

    block: float = 0.15  # from seed to seed, shared by all variants of a seed
    drift: float = 0.02  # of the machine, a random walk from run to run
    run: float = 0.04  # from process to process
    epoch: float = 0.05
    straggler: float = 0.0


def log_speedups(rng: Generator, world: World, num_seeds: int, num_epochs: int = 4) -> dict[str, np.ndarray]:
    """Simulate log(seconds of the baseline / seconds of a variant), (num_seeds,) each.

    A run's seconds are the median of `num_epochs` log-normal epochs, as in a comparison.
    """
    shape = (num_seeds, len(SPEEDUPS))
    logs = -np.log(list(SPEEDUPS.values())) + rng.normal(0, world.block, (num_seeds, 1))
    logs = logs + np.cumsum(rng.normal(0, world.drift, shape).ravel()).reshape(shape) + rng.normal(0, world.run, shape)
    logs += math.log(1.3) * (rng.random(shape) < world.straggler)
    seconds = np.median(np.exp(logs[..., None] + rng.normal(0, world.epoch, (*shape, num_epochs))), axis=-1)
    names = list(SPEEDUPS)
    return {name: np.log(seconds[:, 0] / seconds[:, names.index(name)]) for name in names[1:]}


def percentile_bootstrap(rng: Generator, values: np.ndarray, num_draws: int = 999) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean of values (n,).

    It is the alternative that is not used for speed.
    """
    means = values[rng.integers(len(values), size=(num_draws, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def speed(rng: Generator, world: World, num_seeds: int, num_studies: int) -> dict[str, float]:
    """Return the share of simulated studies whose interval holds the truth, for each interval of speed."""
    held: Counter[str] = Counter()
    for _ in range(num_studies):
        logs, new = log_speedups(rng, world, num_seeds), log_speedups(rng, world, 1)["both"][0]
        speedup = intervals.ratio(logs["both"])
        interaction = intervals.ratio(logs["both"] - logs["precision"] - logs["batch"])
        bootstrap = percentile_bootstrap(rng, logs["both"])
        held["speedup"] += _holds(_log(speedup.low), TRUTH["speedup"], _log(speedup.high))
        held["interaction"] += _holds(_log(interaction.low), TRUTH["interaction"], _log(interaction.high))
        held["one more seed"] += _holds(_log(speedup.new_low), new, _log(speedup.new_high))
        held["speedup, percentile bootstrap"] += _holds(bootstrap[0], TRUTH["speedup"], bootstrap[1])
    return {name: count / num_studies for name, count in held.items()}


def accuracy(rng: Generator, num_seeds: int, num_studies: int, spread_pp: float = 0.7) -> dict[str, float]:
    """Return the coverage of the accuracy difference's intervals, and TOST's errors and finds, at a margin of 1 pp."""
    counts: Counter[str] = Counter()
    for _ in range(num_studies):
        noise = rng.normal(0, spread_pp, num_seeds)
        difference = intervals.difference(noise - 0.4)
        counts["difference, 95 %"] += _holds(difference.low95, -0.4, difference.high95)
        counts["difference, 90 %"] += _holds(difference.low90, -0.4, difference.high90)
        counts["false equivalent at the margin"] += (tost_p_value(noise + MARGIN_PP, MARGIN_PP) or 0.0) < 0.05
        counts["equivalent when nothing differs"] += (tost_p_value(noise, MARGIN_PP) or 0.0) < 0.05
    shares = {name: count / num_studies for name, count in counts.items()}
    return shares | {"the same, as planned": power(spread_pp, MARGIN_PP, num_seeds)}


def planning(rng: Generator, num_studies: int) -> Iterator[dict[str, float]]:
    """Return the seeds that the plan asks for, and how often that many do establish the margin."""
    for spread_pp in (0.35, 0.5 * math.sqrt(2), math.sqrt(2)):
        num_seeds = num_seeds_needed(spread_pp, MARGIN_PP) or 0
        found = sum(
            (tost_p_value(rng.normal(0, spread_pp, num_seeds), MARGIN_PP) or 0.0) < 0.05 for _ in range(num_studies)
        )
        yield {"spread of a difference, pp": round(spread_pp, 3), "seeds": num_seeds, "power": found / num_studies}


def _holds(low: float | None, truth: float, high: float | None) -> bool:
    return low is not None and high is not None and low <= truth <= high


def _log(value: float | None) -> float | None:
    return None if value is None else math.log(value)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.intervals", description=__doc__)
    parser.add_argument("--num-studies", type=int, default=10_000, help="simulated studies a row")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    num_studies = arguments.num_studies
    rng = np.random.default_rng(arguments.seed)

    def show(name: str, measure: Callable[[int], dict[str, float]]) -> None:
        for num_seeds in NUM_SEEDS:
            print(json.dumps({"bench": name, "num_seeds": num_seeds} | measure(num_seeds)), flush=True)

    show("log-normal times with drift", lambda n: speed(rng, World(), n, num_studies))
    show("and one run in ten 30 % slower", lambda n: speed(rng, World(straggler=0.1), n, num_studies))
    show("accuracy", lambda n: accuracy(rng, n, num_studies))
    for row in planning(rng, num_studies):
        print(json.dumps({"bench": "planning"} | row), flush=True)


if __name__ == "__main__":
    main()
