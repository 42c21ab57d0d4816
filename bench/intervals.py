"""Simulate how often each interval holds the truth, and each test errs. Print one JSON line a row."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from pipeline.speed.measuring import MIN_SETTLED_LAUNCHES
from pipeline.speed.turns import MAX_LAUNCHES, MIN_LAUNCHES
from pipeline.statistics import intervals
from pipeline.statistics.equivalence import beyond_p_value, num_seeds_needed, power, tost_p_value
from pipeline.statistics.launches import launch_effects, speedup

NUM_SEEDS = (3, 5, 10)
NUM_LAUNCHES = (2, 3, 5)
LAUNCH_SPREADS_PERCENT = (1, 2, 3, 4, 5, 6)
HALF_WIDTH = 0.05
MARGIN_PP = 1.0
FIRST_SEEDS, MOST_SEEDS = 5, 40


class World(NamedTuple):
    """Say how blocks vary: standard deviations of log seconds, as docs/decisions/speed-in-turns.md has them."""

    launch: float = 0.02  # of one variant, from process to process
    turn: float = 0.1  # shared by all variants of a turn
    block: float = 0.14
    stalled: float = 0.1  # share of blocks that are stalled
    stall: float = 0.4  # mean log of how much longer those take


def log_seconds(rng: Generator, world: World, truth: np.ndarray, num_launches: int, num_turns: int) -> np.ndarray:
    """Simulate log seconds of blocks, (num_launches, num_variants, num_turns), of variants with these true ones."""
    shape = (num_launches, len(truth), num_turns)
    blocks = truth[:, None] + rng.normal(0, world.launch, (num_launches, len(truth), 1))
    blocks = blocks + rng.normal(0, world.turn, (num_launches, 1, num_turns)) + rng.normal(0, world.block, shape)
    return np.asarray(blocks + rng.exponential(world.stall, shape) * (rng.random(shape) < world.stalled))


def speed(rng: Generator, world: World, num_launches: int, num_studies: int) -> dict[str, float]:
    """Return the share of simulated studies whose interval holds the truth, for each interval of speed.

    Five variants in ten turns: the baseline and again, twice the batch, 16 bits, and both.
    """
    truth = -np.log([1.0, 1.0, 1.3, 1.7, 2.6])
    contrasts = {
        "the baseline over itself": np.array([1, -1, 0, 0, 0]),
        "speedup": np.array([0.5, 0.5, 0, 0, -1]),
        "interaction": np.array([-0.5, -0.5, 1, 1, -1]),
    }
    held: Counter[str] = Counter()
    for _ in range(num_studies):
        effects = launch_effects(log_seconds(rng, world, truth, num_launches, num_turns=10))
        for name, weights in contrasts.items():
            ratio = speedup(effects, weights)
            held[name] += _holds(ratio.low, math.exp(truth @ weights), ratio.high)
        new = launch_effects(log_seconds(rng, world, truth, 1, num_turns=10))[0] @ contrasts["speedup"]
        ratio = speedup(effects, contrasts["speedup"])
        held["one more launch"] += _holds(ratio.new_low, math.exp(new), ratio.new_high)
    return {name: count / num_studies for name, count in held.items()}


def ending_early(
    rng: Generator, spread: float, num_studies: int, min_launches: int = MIN_SETTLED_LAUNCHES
) -> dict[str, float]:
    """Return how often intervals hold the truth where a study ends once they are narrow, and after how many launches.

    Five variants, the baseline and again among them, whose medians vary by `spread` from launch to launch.
    """
    speedup_of_one, baseline_again = np.array([0.5, 0.5, -1, 0, 0]), np.array([1, -1, 0, 0, 0])
    counts: Counter[str] = Counter()
    for _ in range(num_studies):
        effects = rng.normal(0, spread, (MAX_LAUNCHES, 5))
        for num_launches in range(min_launches, MAX_LAUNCHES + 1):
            ratio = speedup(effects[:num_launches], speedup_of_one)
            if ratio.high and ratio.ratio and ratio.high / ratio.ratio - 1 <= HALF_WIDTH:
                break
        again = speedup(effects[:num_launches], baseline_again)
        counts["speedup"] += _holds(ratio.low, 1, ratio.high)
        counts["the baseline over itself"] += _holds(again.low, 1, again.high)
        counts["launches"] += num_launches
    return {name: count / num_studies for name, count in counts.items()}


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


def going_on(rng: Generator, num_studies: int, true_pp: float, spread_pp: float = 0.7) -> dict[str, float]:
    """Return what five seeds and, where they leave the margin open, as many as the plan then asks for come to."""
    counts: Counter[str] = Counter()
    for _ in range(num_studies):
        differences = rng.normal(true_pp, spread_pp, FIRST_SEEDS)
        first = _is_equivalent(differences), _is_beyond(differences)
        if not any(first):
            spread, mean = float(differences.std(ddof=1)), float(differences.mean())
            planned = num_seeds_needed(spread, MARGIN_PP, difference=mean) or MOST_SEEDS
            more = rng.normal(true_pp, spread_pp, max(0, min(planned, MOST_SEEDS) - FIRST_SEEDS))
            differences = np.concatenate([differences, more])
        found = intervals.difference(differences)
        counts["difference, 95 %"] += _holds(found.low95, true_pp, found.high95)
        counts["equivalent"] += _is_equivalent(differences)
        counts["beyond"] += _is_beyond(differences)
        counts["seeds"] += len(differences)
    return {name: count / num_studies for name, count in counts.items()}


def _is_equivalent(differences_pp: np.ndarray) -> bool:
    return (tost_p_value(differences_pp, MARGIN_PP) or 0.0) < 0.05


def _is_beyond(differences_pp: np.ndarray) -> bool:
    return (beyond_p_value(differences_pp, MARGIN_PP) or 0.0) < 0.05


def _holds(low: float | None, truth: float, high: float | None) -> bool:
    return low is not None and high is not None and low <= truth <= high


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.intervals", description=__doc__)
    parser.add_argument("--num-studies", type=int, default=10_000, help="simulated studies a row")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    num_studies = arguments.num_studies
    rng = np.random.default_rng(arguments.seed)

    def show(name: str, what: str, numbers: Sequence[int], simulate: Callable[[int], dict[str, float]]) -> None:
        for number in numbers:
            print(json.dumps({"bench": name, what: number} | simulate(number)), flush=True)

    show("turns", "num_launches", NUM_LAUNCHES, lambda n: speed(rng, World(), n, num_studies))
    calm = World(stalled=0.0)
    show("turns without stalls", "num_launches", NUM_LAUNCHES, lambda n: speed(rng, calm, n, num_studies))
    for min_launches in (MIN_LAUNCHES, MIN_SETTLED_LAUNCHES):
        for percent in LAUNCH_SPREADS_PERCENT:
            where: dict[str, object] = {"min_launches": min_launches, "launch_spread_percent": percent}
            found = ending_early(rng, percent / 100, num_studies, min_launches)
            print(json.dumps({"bench": "ending early"} | where | found), flush=True)
    show("accuracy", "num_seeds", NUM_SEEDS, lambda n: accuracy(rng, n, num_studies))
    for true_pp in (0.0, 0.5, MARGIN_PP):
        found = going_on(rng, num_studies, true_pp)
        print(json.dumps({"bench": "going on as planned", "true_pp": true_pp} | found), flush=True)
    for row in planning(rng, num_studies):
        print(json.dumps({"bench": "planning"} | row), flush=True)


if __name__ == "__main__":
    main()
