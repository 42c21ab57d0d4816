"""From log seconds by launch, variant and turn to ratios with intervals.

Launches and variants make a two-way layout without replication. Within a launch the median over turns leaves
single slow blocks without weight; the interval rests on how the launches differ, because what varies from process to
process does not average out over turns (Kalibera & Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013).
"""

import warnings
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.statistics.intervals import Ratio

NO_RATIO = Ratio(ratio=None, low=None, high=None, new_low=None, new_high=None)
MAD = 1.4826  # times the median absolute deviation is the standard deviation of a normal distribution


class LogRatio(NamedTuple):
    """A contrast of log seconds: its mean over launches, and the standard deviation of one launch.

    Without degrees of freedom that deviation is not known.
    """

    mean: float
    of_one_launch: float
    degrees_of_freedom: int
    num_launches: int

    @property
    def error(self) -> float:
        """Return the standard error of the mean."""
        return self.of_one_launch / float(np.sqrt(self.num_launches))

    @property
    def ratio(self) -> Ratio:
        """Return exp of the mean, with its 95 % interval and that of a new launch."""
        if not self.degrees_of_freedom:
            return NO_RATIO.model_copy(update={"ratio": float(np.exp(self.mean))})
        half = float(scipy.stats.t.ppf(0.975, self.degrees_of_freedom)) * self.error
        new_half = half * float(np.sqrt(self.num_launches + 1))
        low, high, new_low, new_high = (
            float(np.exp(self.mean + distance)) for distance in (-half, half, -new_half, new_half)
        )
        return Ratio(ratio=float(np.exp(self.mean)), low=low, high=high, new_low=new_low, new_high=new_high)


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


def contrast(effects: np.ndarray, weights: ArrayLike) -> LogRatio:
    """Return a contrast of the effects; its spread is that of all variants, which are taken to vary alike.

    Args:
        effects: finite, (num_launches, num_variants), of log seconds.
        weights: (num_variants,) with sum 0: 1 for the slower, -1 for the faster gives a speedup.
    """
    weights = np.asarray(weights, dtype=np.float64)
    spread, freedom = launch_spread(effects) if len(effects) > 1 else (0.0, 0)
    of_one = spread * float(np.linalg.norm(weights))
    return LogRatio(float((effects @ weights).mean()), of_one, freedom, len(effects))


def contrast_of_few_blocks(log_seconds: ArrayLike, weights: ArrayLike, spread: float, freedom: int) -> LogRatio | None:
    """Return as `contrast` does, where one of the variants has too few blocks to vary as little as the others.

    To the variance that variants with many blocks have from launch to launch comes that of a median of few turns:
    π/2 times the variance of a turn over their number (Cramér, Mathematical Methods of Statistics, 1946, § 28.5).
    Where no launch has two turns in which all variants have a block, the launches alone tell how they vary; None where
    one has none.

    Args:
        log_seconds: (num_launches, num_variants, num_turns), NaN where there is no block.
        weights: as of `contrast`.
        spread, freedom: `launch_spread` of the variants with many blocks.
    """
    weights = np.asarray(weights, dtype=np.float64)
    turns = np.tensordot(np.asarray(log_seconds, dtype=np.float64), weights, axes=([1], [0]))
    num_turns = np.isfinite(turns).sum(axis=1)
    if not num_turns.all():
        return None
    of_launches = np.nanmedian(turns, axis=1)
    mean, num_launches = float(of_launches.mean()), len(turns)
    freedom_of_turns = int(num_turns.sum() - num_launches)
    if not freedom_of_turns or not freedom:
        of_one = float(of_launches.std(ddof=1)) if num_launches > 1 else 0.0
        return LogRatio(mean, of_one, num_launches - 1, num_launches)
    deviations = np.abs(turns - of_launches[:, np.newaxis])[np.isfinite(turns)]
    of_turn = (MAD * np.median(deviations)) ** 2 * deviations.size / freedom_of_turns
    of_median = np.pi / 2 * of_turn * float(np.mean(1 / num_turns))
    of_one = float(np.sqrt(spread**2 * float(weights @ weights) + of_median))
    return LogRatio(mean, of_one, min(freedom, freedom_of_turns), num_launches)
