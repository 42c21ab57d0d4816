"""Simulate how often each interval holds the truth, and each test errs. Print one JSON line a row."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from pipeline.records.blocks import MAX_LAUNCHES
from pipeline.speed.measuring import MIN_SETTLED_LAUNCHES
from pipeline.statistics.another_day import on_another_day
from pipeline.statistics.contrasts import MIN_LAUNCHES, contrast, launch_effects
from pipeline.statistics.equivalence import (
    SIGNIFICANCE_LEVEL,
    adjust,
    loss,
    num_seeds_needed,
    p_values,
    paired,
    unpaired,
)

NUM_SEEDS = (3, 5, 10, 30)
NUM_LAUNCHES = (3, 5)
LAUNCH_SPREADS_PERCENT = (1, 2, 3, 4, 5, 6)
HALF_WIDTH = 0.05
MARGIN_PP = 1.0
SPREAD_PP = 0.7  # of the difference of two runs
FIRST_SEEDS, MOST_SEEDS = 5, 40
TAU = 0.06  # the spread of log ratios between sittings


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
    }
    held: Counter[str] = Counter()
    for _ in range(num_studies):
        effects = launch_effects(log_seconds(rng, world, truth, num_launches, num_turns=10))
        for name, weights in contrasts.items():
            ratio = contrast(effects, weights).ratio
            held[name] += _holds(ratio.low, math.exp(truth @ weights), ratio.high)
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
            ratio = contrast(effects[:num_launches], speedup_of_one).ratio
            if ratio.high and ratio.value and ratio.high / ratio.value - 1 <= HALF_WIDTH:
                break
        again = contrast(effects[:num_launches], baseline_again).ratio
        counts["speedup"] += _holds(ratio.low, 1, ratio.high)
        counts["the baseline over itself"] += _holds(again.low, 1, again.high)
        counts["launches"] += num_launches
    return {name: count / num_studies for name, count in counts.items()}


def accuracy(
    rng: Generator, num_seeds: int, num_studies: int, is_paired: bool = True, num_baseline_seeds: int | None = None
) -> dict[str, float]:
    """Return how often intervals of a difference hold the truth, and tests err and find, at a margin of 1 pp.

    Three candidates stand beside a baseline. A difference of two runs has a spread of 0.7 pp; a candidate that is not
    paired varies twice as much as the baseline.
    """
    spreads_pp = np.array([0.5, 0.5] if is_paired else [0.2, 0.8]) ** 0.5 * SPREAD_PP
    counts: Counter[str] = Counter()
    for _ in range(num_studies):
        baseline = rng.normal(0, spreads_pp[0], num_baseline_seeds or num_seeds)
        candidates = rng.normal(0, spreads_pp[1], (3, num_seeds))
        alike = [paired(values - baseline) if is_paired else unpaired(baseline, values) for values in candidates]
        below = [found._replace(mean=found.mean - MARGIN_PP) for found in alike]
        difference = below[0].estimate
        counts["difference, 95 %"] += _holds(difference.low, -MARGIN_PP, difference.high)
        counts["false different"] += _is_shown(p_values(alike[0], MARGIN_PP).differs)
        counts["false equivalent at the margin"] += _is_shown(p_values(below[0], MARGIN_PP).within)
        counts["false no worse at the margin"] += _is_shown(p_values(below[0], MARGIN_PP, is_one_sided=True).within)
        of_three = adjust([p_values(each, MARGIN_PP) for each in below], [0] * 3)
        counts["false equivalent, any of three"] += any(_is_shown(each.within) for each in of_three)
        counts["equivalent when nothing differs"] += _is_shown(p_values(alike[0], MARGIN_PP).within)
    return {name: count / num_studies for name, count in counts.items()}


def losses(rng: Generator, num_seeds: int, num_studies: int, true_loss_pp: float) -> dict[str, float]:
    """Return how often bounds of the losses of two candidates are wrong, and each of the conditions of "Use …" is met.

    Both candidates lose `true_loss_pp`, share the baseline's runs, and train as fast as the baseline. Their speeds come
    from three launches, which vary by 2 %, in a sitting that is off by τ.
    """
    counts: Counter[str] = Counter()
    for _ in range(num_studies):
        baseline, *candidates = rng.normal(0, SPREAD_PP / math.sqrt(2), (3, num_seeds))
        found = [loss(paired(values - true_loss_pp - baseline), MARGIN_PP, 2) for values in candidates]
        counts["wrong bound"] += any((each.most or 0.0) < true_loss_pp for each in found)
        counts["loses less than the margin"] += any((each.most or 0.0) < MARGIN_PP for each in found)
        effects = rng.normal(0, 0.02, (3, 3)) - np.array([0, *rng.normal(0, TAU, 2)])
        speeds = [on_another_day(contrast(effects, np.array(weights)), TAU) for weights in ([1, -1, 0], [1, 0, -1])]
        counts["shown to be faster, at equal speeds"] += any(each.lies_above(1) for each in speeds)
    return {name: count / num_studies for name, count in counts.items()}


def going_on(rng: Generator, num_studies: int, true_pp: float) -> dict[str, float]:
    """Return what five seeds and, where they leave the margin open, as many as the plan then asks for come to."""
    counts: Counter[str] = Counter()
    for _ in range(num_studies):
        differences = rng.normal(true_pp, SPREAD_PP, FIRST_SEEDS)
        first = paired(differences)
        if not any(map(_is_shown, (p_values(first, MARGIN_PP).within, p_values(first, MARGIN_PP).beyond))):
            planned = num_seeds_needed(first.spread, MARGIN_PP, 1, is_one_sided=False) or MOST_SEEDS
            more = rng.normal(true_pp, SPREAD_PP, max(0, min(planned, MOST_SEEDS) - FIRST_SEEDS))
            differences = np.concatenate([differences, more])
        difference, tests = paired(differences).estimate, p_values(paired(differences), MARGIN_PP)
        counts["difference, 95 %"] += _holds(difference.low, true_pp, difference.high)
        counts["equivalent"] += _is_shown(tests.within)
        counts["beyond"] += _is_shown(tests.beyond)
        counts["seeds"] += len(differences)
    return {name: count / num_studies for name, count in counts.items()}


def _is_shown(p_value: float | None) -> bool:
    return p_value is not None and p_value < SIGNIFICANCE_LEVEL


def _holds(low: float | None, truth: float, high: float | None) -> bool:
    return low is not None and high is not None and low <= truth <= high


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.interval_coverage", description=__doc__)
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
    show("accuracy, paired", "num_seeds", NUM_SEEDS, lambda n: accuracy(rng, n, num_studies))
    show("accuracy, not paired", "num_seeds", NUM_SEEDS, lambda n: accuracy(rng, n, num_studies, is_paired=False))
    uneven = "accuracy, not paired, beside 30 of the baseline"
    show(uneven, "num_seeds", NUM_SEEDS[:-1], lambda n: accuracy(rng, n, num_studies, False, 30))
    for true_pp in (0.0, 0.5, MARGIN_PP):
        show(f"a loss of {true_pp} pp", "num_seeds", NUM_SEEDS, lambda n, pp=true_pp: losses(rng, n, num_studies, pp))
        found = going_on(rng, num_studies, true_pp)
        print(json.dumps({"bench": "going on as planned", "true_pp": true_pp} | found), flush=True)


if __name__ == "__main__":
    main()
