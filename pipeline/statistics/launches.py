"""From log seconds by launch, variant and turn to ratios with intervals.

Launches and variants make a two-way layout without replication. Within a launch the median over turns leaves
single slow blocks without weight; the interval rests on how the launches differ, because what varies from process to
process does not average out over turns (Kalibera & Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013).
"""

import warnings

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.statistics.intervals import Ratio

MAD = 1.4826  # times the median absolute deviation is the standard deviation of a normal distribution


def launch_effects(log_seconds: ArrayLike) -> np.ndarray:
    """Return by how much each variant differs from the first one in each launch, (num_launches, num_variants).

    The median over the turns of a launch in which both have a block; NaN where there is none.

    Args:
        log_seconds: (num_launches, num_variants, num_turns), NaN where there is no block.
    """
    values = np.asarray(log_seconds, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of medians over no turn at all
        return np.nanmedian(values - values[:, :1], axis=2)


def launch_spread(effects: np.ndarray) -> tuple[float, int]:
    """Return the standard deviation of one variant's effect in one launch, and its degrees of freedom.

    The residual of a two-way layout without replication: (launches - 1)(variants - 1) degrees of freedom
    (Montgomery, Design and Analysis of Experiments, chapter 4.1).

    Args:
        effects: finite, (num_launches, num_variants).
    """
    residuals = effects - effects.mean(axis=0) - effects.mean(axis=1, keepdims=True) + effects.mean()
    freedom = (effects.shape[0] - 1) * (effects.shape[1] - 1)
    return float(np.sqrt((residuals**2).sum() / freedom)), freedom


def speedup(effects: np.ndarray, weights: ArrayLike) -> Ratio:
    """Return exp of a contrast of the effects, with its 95 % interval and that of a new launch.

    Args:
        effects: finite, (num_launches, num_variants), of log seconds.
        weights: (num_variants,) with sum 0: 1 for the slower, -1 for the faster gives a speedup.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if len(effects) < 2:
        return _ratio(effects @ weights, 0.0, 0)
    spread, freedom = launch_spread(effects)
    return _ratio(effects @ weights, spread**2 * float(weights @ weights), freedom)


def speedup_of_few_blocks(log_seconds: ArrayLike, weights: ArrayLike, spread: float, freedom: int) -> Ratio:
    """Return as `speedup` does, where one of the variants has too few blocks to vary as little as the others.

    To the variance that variants with many blocks have from launch to launch comes that of a median of few turns:
    π/2 times the variance of a turn over their number (Cramér, Mathematical Methods of Statistics, 1946, § 28.5).
    Where no launch has two turns in which all variants have a block, the launches alone tell how they vary; unknown
    where one has none.

    Args:
        log_seconds: (num_launches, num_variants, num_turns), NaN where there is no block.
        weights: as of `speedup`.
        spread, freedom: `launch_spread` of the variants with many blocks.
    """
    weights = np.asarray(weights, dtype=np.float64)
    turns = np.tensordot(np.asarray(log_seconds, dtype=np.float64), weights, axes=([1], [0]))
    num_turns = np.isfinite(turns).sum(axis=1)
    if not num_turns.all():
        return Ratio(ratio=None, low=None, high=None, new_low=None, new_high=None)
    of_launches = np.nanmedian(turns, axis=1)
    freedom_of_turns = int(num_turns.sum() - len(turns))
    if not freedom_of_turns or not freedom:
        variance = float(of_launches.var(ddof=1)) if len(of_launches) > 1 else 0.0
        return _ratio(of_launches, variance, len(of_launches) - 1)
    deviations = np.abs(turns - of_launches[:, np.newaxis])[np.isfinite(turns)]
    of_turn = (MAD * np.median(deviations)) ** 2 * deviations.size / freedom_of_turns
    of_median = np.pi / 2 * of_turn * float(np.mean(1 / num_turns))
    return _ratio(of_launches, spread**2 * float(weights @ weights) + of_median, min(freedom, freedom_of_turns))


def _ratio(of_launches: np.ndarray, variance: float, freedom: int) -> Ratio:
    """Return exp of the mean over launches; `variance` is that of one launch. Without freedom there is no interval."""
    estimate, num_launches = float(of_launches.mean()), len(of_launches)
    if not freedom:
        return Ratio(ratio=float(np.exp(estimate)), low=None, high=None, new_low=None, new_high=None)
    of_one = float(scipy.stats.t.ppf(0.975, freedom)) * float(np.sqrt(variance))
    half, new_half = of_one / np.sqrt(num_launches), of_one * np.sqrt(1 + 1 / num_launches)
    low, high, new_low, new_high = (
        float(np.exp(value)) for value in (estimate - half, estimate + half, estimate - new_half, estimate + new_half)
    )
    return Ratio(ratio=float(np.exp(estimate)), low=low, high=high, new_low=new_low, new_high=new_high)
