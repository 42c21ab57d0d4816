"""From sittings to the interval of another day: how far a ratio varies from one sitting to the next.

A sitting is a measurement of speed an hour or more from the next. Its log ratio is y = μ + b + e: μ is that of such
machines; b, with the standard deviation τ, is what a sitting has in common (the host, its other guests, where memory
lies); e is the error within the sitting, which its launches tell. An interval from e alone holds the sitting's μ + b.
The interval of another day holds μ.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from pipeline.statistics.intervals import Ratio, Statistic
from pipeline.statistics.speeds import NO_RATIO, LogRatio

MIN_SITTINGS = 6  # of a contrast, for its own estimate to stand alone
MIN_OF_OWN = 3  # for the pooled value to be the least, in place of `NOT_MEASURED`


class SittingSpread(Statistic):
    """The standard deviation τ of log ratios from sitting to sitting, and the degrees of freedom of its quantiles.

    `num_sittings` have measured this contrast; where they are too few, the spread is that of others.
    """

    spread: float
    degrees_of_freedom: int
    num_sittings: int


# Seven sittings of the profile quick found at most 0.067 (docs/decisions/speed-in-turns.md).
NOT_MEASURED = SittingSpread(spread=0.06, degrees_of_freedom=6, num_sittings=0)
OF_ITSELF = SittingSpread(spread=0.0, degrees_of_freedom=6, num_sittings=0)  # one process measures both


class Sittings(NamedTuple):
    """The log ratios of one contrast, one a sitting, and their standard errors within it; both (num_sittings,)."""

    log_ratios: list[float]
    errors: list[float]


def excess_variance(found: Sittings) -> float:
    """Return the variance of two sittings or more, less the mean of their variances within; it may be negative.

    Its expectation is τ². It is the method of moments with equal weights: Cochran, Biometrics 10, 1954; named CA by
    DerSimonian and Kacker, Contemporary Clinical Trials 28, 2007, § 2.
    """
    return float(np.var(found.log_ratios, ddof=1) - np.mean(np.square(found.errors)))


def pooled_spread(contrasts: Sequence[Sittings]) -> SittingSpread:
    """Return the spread of all contrasts with `MIN_SITTINGS` or more, each weighted by its degrees of freedom.

    Contrasts of one sitting are no independent ones, so the quantiles are those of the fewest sittings. Where no
    contrast has so many, it is `NOT_MEASURED`.
    """
    many = [found for found in contrasts if len(found.log_ratios) >= MIN_SITTINGS]
    if not many:
        return NOT_MEASURED
    freedoms = [len(found.log_ratios) - 1 for found in many]
    variance = np.average([excess_variance(found) for found in many], weights=freedoms)
    return SittingSpread(
        spread=math.sqrt(max(float(variance), 0.0)), degrees_of_freedom=min(freedoms), num_sittings=min(freedoms) + 1
    )


def spread_of(found: Sittings, pooled: SittingSpread) -> SittingSpread:
    """Return the spread of a contrast between its sittings.

    Six sittings or more estimate it. The estimate of fewer counts where it is greater than another: than the pooled one
    from three sittings on, than `NOT_MEASURED` else. The degrees of freedom are those of that other one.
    """
    num_sittings = len(found.log_ratios)
    estimate = math.sqrt(max(excess_variance(found), 0.0)) if num_sittings > 1 else 0.0
    if num_sittings >= MIN_SITTINGS:
        return SittingSpread(spread=estimate, degrees_of_freedom=num_sittings - 1, num_sittings=num_sittings)
    least = pooled if num_sittings >= MIN_OF_OWN else NOT_MEASURED
    return least.model_copy(update={"spread": max(estimate, least.spread), "num_sittings": num_sittings})


def reach(between: SittingSpread) -> float:
    """Return the half-width, on the log scale, of the interval that a sitting without any error of its own has."""
    return _quantile(between) * between.spread


def on_another_day(found: LogRatio | None, between: SittingSpread) -> Ratio:
    """Return the ratio of a sitting with the 95 % interval of such machines, whatever the day.

    Its variance is that within the sitting plus τ². It is never narrower than the sitting's own interval.
    """
    if found is None:
        return NO_RATIO
    own = found.ratio
    if own.high is None:
        return own
    half = max(_quantile(between) * math.hypot(found.error, between.spread), math.log(own.high) - found.mean)
    return Ratio(ratio=own.ratio, low=math.exp(found.mean - half), high=math.exp(found.mean + half))


def _quantile(between: SittingSpread) -> float:
    return float(scipy.special.stdtrit(between.degrees_of_freedom, 0.975))
