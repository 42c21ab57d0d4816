"""From a sitting to the interval of another day: a ratio of speeds also varies from one sitting to the next.

A sitting is one measurement of speed. Its log ratio is y = μ + b + e: μ is that of such machines; b, with the standard
deviation τ, is what a sitting has in common (the host, its other guests, where memory lies); e is the error within the
sitting, which its launches tell. An interval from e alone holds the sitting's μ + b. The interval of another day holds
μ.
"""

import math

import scipy

from pipeline.statistics.intervals import Ratio
from pipeline.statistics.speeds import NO_RATIO, LogRatio

# τ by the class of device. Seven sittings on CPUs gave 0.036 to 0.067; of accelerators it is assumed
# (docs/decisions/another-day.md).
BETWEEN_SITTINGS = {"cpu": 0.06, "nvidia_gpu": 0.06, "tpu": 0.06}
_QUANTILE = float(scipy.special.stdtrit(6, 0.975))  # of seven sittings


def reach(spread: float) -> float:
    """Return the half-width, on the log scale, of the interval that a sitting without any error of its own has."""
    return _QUANTILE * spread


def on_another_day(found: LogRatio | None, spread: float) -> Ratio:
    """Return the ratio of a sitting with the 95 % interval of such machines, whatever the day.

    Its variance is that within the sitting plus τ², the square of `spread`. It is never narrower than the sitting's
    own interval. A sitting of fewer than `MIN_LAUNCHES` has no interval of its own, and so none of another day either.
    """
    if found is None:
        return NO_RATIO
    own = found.ratio
    if own.high is None:
        return own
    half = max(_QUANTILE * math.hypot(found.error, spread), math.log(own.high) - found.mean)
    return Ratio(ratio=own.ratio, low=math.exp(found.mean - half), high=math.exp(found.mean + half))
