"""Compute ratios with intervals from a table of launches and variants.

A launch starts one process for each variant. In each turn of a launch, each variant trains one block: a few training
steps that are timed together. Launches and variants form a two-way layout without replication. Within a launch, the
median over turns ignores single slow blocks. The interval comes from the differences between launches, because
variation from process to process does not average out over turns (Kalibera & Jones, Rigorous Benchmarking in
Reasonable Time, ISMM 2013).
"""

import warnings
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.statistics.intervals import Estimate

MIN_LAUNCHES = 3  # for a speed interval: two launches may agree by chance


class LogRatio(NamedTuple):
    """Hold a contrast of log values (a weighted sum whose weights add up to 0) and its error.

    `mean` is the mean of the contrast over launches, and `of_one_launch` is the standard deviation of the contrast in
    one launch. With 0 degrees of freedom, this standard deviation is unknown.
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
    def ratio(self) -> Estimate:
        """Return the ratio, with a 95 % interval if there are at least `MIN_LAUNCHES` launches."""
        return self.ratio_from(MIN_LAUNCHES)

    def ratio_from(self, min_launches: int) -> Estimate:
        """Return exp(`mean`), with a 95 % interval if there are at least `min_launches` and the error is known."""
        value = float(np.exp(self.mean))
        if not self.degrees_of_freedom or self.num_launches < min_launches:
            return Estimate(value)
        half = float(scipy.stats.t.ppf(0.975, self.degrees_of_freedom)) * self.error
        return Estimate(value, float(np.exp(self.mean - half)), float(np.exp(self.mean + half)))


def launch_effects(log_seconds: ArrayLike) -> np.ndarray:
    """Return each variant's difference in log seconds from the first variant, (num_launches, num_variants).

    A difference is the median over the turns of a launch in which both variants have a block, or NaN without such a
    turn.

    Args:
        log_seconds: (num_launches, num_variants, num_turns), NaN for a missing block.
    """
    values = np.asarray(log_seconds, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a median over no turn warns
        return np.nanmedian(values - values[:, :1], axis=2)


def launch_spread(effects: np.ndarray) -> tuple[float, int]:
    """Return the standard deviation of one variant's effect in one launch, and its degrees of freedom.

    The residuals of a two-way layout without replication have (launches - 1)(variants - 1) degrees of freedom
    (Montgomery, Design and Analysis of Experiments, chapter 4.1).

    Args:
        effects: finite, (num_launches, num_variants), with at least two launches and two variants.
    """
    residuals = effects - effects.mean(axis=0) - effects.mean(axis=1, keepdims=True) + effects.mean()
    freedom = (effects.shape[0] - 1) * (effects.shape[1] - 1)
    return float(np.sqrt((residuals**2).sum() / freedom)), freedom


def contrast(effects: np.ndarray, weights: ArrayLike) -> LogRatio:
    """Return a contrast. The standard deviation is pooled over all variants, which are assumed to vary alike.

    Args:
        effects: finite, (num_launches, num_variants), of log values.
        weights: (num_variants,) with sum 0. A speedup has 1 for the baseline and -1 for the candidate.
    """
    weights = np.asarray(weights, dtype=np.float64)
    spread, freedom = launch_spread(effects) if len(effects) > 1 else (0.0, 0)
    of_one = spread * float(np.linalg.norm(weights))
    return LogRatio(float((effects @ weights).mean()), of_one, freedom, len(effects))
