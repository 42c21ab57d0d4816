"""Widen the interval of a speedup to cover other days, because speed varies from sitting to sitting.

A sitting is one measurement of speed. Its log ratio is y = μ + b + e. The term μ is the log ratio for machines of this
kind. The deviation b, with standard deviation τ, is common to the whole sitting; causes are the host, its other guests
and the placement of memory. The error e within the sitting is estimated from the sitting's launches. An interval from e
alone covers this sitting's μ + b. The interval for another day covers μ.
"""

import math

import scipy

from pipeline.statistics.contrasts import LogRatio
from pipeline.statistics.intervals import Estimate

_QUANTILE = float(scipy.special.stdtrit(6, 0.975))  # for the default τ, which comes from seven sittings


def reach(spread: float) -> float:
    """Return the half-width, on the log scale, of the interval for another day if the sitting's own error is 0.

    Args:
        spread: τ.
    """
    return _QUANTILE * spread


def on_another_day(log_ratio: LogRatio | None, spread: float) -> Estimate:
    """Return the ratio of a sitting, with a 95 % interval that holds for machines of this kind on any day.

    The variance is the sitting's own variance plus τ². The interval is never narrower than the sitting's own interval.
    With fewer than three launches, there is no interval. Without a log ratio, all fields are None.

    Args:
        log_ratio: the sitting's y, with its standard error.
        spread: τ.
    """
    if log_ratio is None:
        return Estimate()
    own = log_ratio.ratio
    if own.high is None:
        return own
    half = max(_QUANTILE * math.hypot(log_ratio.error, spread), math.log(own.high) - log_ratio.mean)
    return Estimate(own.value, math.exp(log_ratio.mean - half), math.exp(log_ratio.mean + half))
