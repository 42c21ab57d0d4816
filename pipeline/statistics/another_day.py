"""Widen the interval of a speedup so that it also covers other days: speed varies from sitting to sitting.

A sitting is one measurement of speed. Its log ratio is y = μ + b + e. μ is the log ratio of machines of this kind. b,
with standard deviation τ, is common to the whole sitting (the host, its other guests, memory placement). e is the
error within the sitting, estimated from its launches. An interval from e alone covers this sitting's μ + b. The
interval for another day covers μ.
"""

import math

import scipy

from pipeline.statistics.contrasts import LogRatio
from pipeline.statistics.intervals import Estimate

_QUANTILE = float(scipy.special.stdtrit(6, 0.975))  # τ comes from seven sittings


def reach(spread: float) -> float:
    """Return the half-width, on the log scale, of the interval for another day if a sitting's own error is 0."""
    return _QUANTILE * spread


def on_another_day(log_ratio: LogRatio | None, spread: float) -> Estimate:
    """Return the ratio of a sitting, with a 95 % interval that holds for machines of this kind on any day.

    The variance is the sitting's own plus `spread`² (τ²). The interval is never narrower than the sitting's own. A
    sitting of fewer than `MIN_LAUNCHES` launches has neither interval.
    """
    if log_ratio is None:
        return Estimate()
    own = log_ratio.ratio
    if own.high is None:
        return own
    half = max(_QUANTILE * math.hypot(log_ratio.error, spread), math.log(own.high) - log_ratio.mean)
    return Estimate(own.value, math.exp(log_ratio.mean - half), math.exp(log_ratio.mean + half))
