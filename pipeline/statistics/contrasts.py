"""Set two variants beside each other: a mean difference, paired by seed or not, and how sure it is."""

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.statistics.intervals import MIN_SEEDS, Difference, Interval, Ratio, has_spread


class Contrast(NamedTuple):
    """Hold a mean difference, candidate less baseline, its standard error and degrees of freedom; unknown is NaN.

    `spread` is the standard deviation of the difference of two runs, one of each variant, and `num_seeds` how many of
    each have this error. `freedom_per_seed` counts the degrees of freedom that one more of each brings. Variants that
    agree to the last example have an error of 0.
    """

    mean: float = math.nan
    spread: float = math.nan
    error: float = math.nan
    num_seeds: float = math.nan
    freedom: float = math.nan
    freedom_per_seed: float = 1.0

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.error)

    def interval(self, confidence: float) -> Interval | None:
        """Return the t-interval of the difference."""
        if not self.is_known:
            return None
        half = self.error * float(scipy.special.stdtrit(self.freedom, (1 + confidence) / 2)) if self.error else 0.0
        return Interval(self.mean - half, self.mean + half)

    def above(self, bound: float) -> float:
        """Return the p-value of the one-sided t-test that the difference lies above `bound`."""
        if not self.error:
            return float(self.mean <= bound)
        return float(scipy.special.stdtr(self.freedom, (bound - self.mean) / self.error))

    def below(self, bound: float) -> float:
        return self._replace(mean=-self.mean).above(-bound)

    def beyond(self, bound: float) -> float:
        """Return the p-value of the test that the difference lies below −bound or above it.

        Twice that of the one-sided t-test on the side of the mean: below 5 % where the 95 % interval lies wholly beyond
        the bound. Twice, because a mean may err to either side: so the test keeps its level however wide the spread,
        and never shows a difference that the test of "no difference" does not.
        """
        return min(1.0, 2 * self._replace(mean=abs(self.mean)).above(bound))


def paired(differences: ArrayLike) -> Contrast:
    """Return the contrast of paired differences (num_seeds,).

    The error is unknown with fewer than `MIN_SEEDS`, and where differences have no spread, unless all are zero: runs
    that agree to the last example are the same.
    """
    values = np.asarray(differences, dtype=np.float64)
    mean, num_seeds = float(values.mean()) if len(values) else math.nan, len(values)
    if num_seeds < MIN_SEEDS:
        return Contrast(mean)
    spread = float(values.std(ddof=1))
    error = spread / math.sqrt(num_seeds) if has_spread(values) or not values.any() else math.nan
    return Contrast(mean, spread, error, num_seeds, num_seeds - 1)


def unpaired(baseline: np.ndarray, candidate: np.ndarray) -> Contrast:
    """Return the contrast of two variants that share no seeds, from the values of each (num_seeds,).

    Its error is √(s₁²/n₁ + s₂²/n₂), with about as many degrees of freedom as Satterthwaite says (Welch, Biometrika 34,
    1947; Satterthwaite, Biometrics Bulletin 2, 1946). It is unknown with fewer than `MIN_SEEDS` of either, and where
    neither has a spread and yet they differ.
    """
    numbers = np.array([len(baseline), len(candidate)])
    mean = float(candidate.mean() - baseline.mean()) if numbers.all() else math.nan
    if min(numbers) < MIN_SEEDS:
        return Contrast(mean)
    if not has_spread(baseline) and not has_spread(candidate):
        return Contrast(mean, 0.0, math.nan if mean else 0.0)
    variances = np.array([baseline.var(ddof=1), candidate.var(ddof=1)])
    shares, total = variances / numbers, variances.sum()
    return Contrast(
        mean,
        spread=float(np.sqrt(total)),
        error=float(np.sqrt(shares.sum())),
        num_seeds=float(total / shares.sum()),
        freedom=float(shares.sum() ** 2 / (shares**2 / (numbers - 1)).sum()),
        freedom_per_seed=float(total**2 / (variances**2).sum()),
    )


def difference(found: Contrast, p_value_holm: float | None = None) -> Difference:
    """Return mean, intervals and the test of "no difference". Whoever knows the other candidates gives its p-value."""
    (low90, high90), (low95, high95) = (found.interval(level) or (None, None) for level in (0.90, 0.95))
    return Difference(
        mean=None if math.isnan(found.mean) else found.mean,
        low90=low90,
        high90=high90,
        low95=low95,
        high95=high95,
        p_value=found.beyond(0.0) if found.is_known else None,
        p_value_holm=p_value_holm,
    )


def ratio(logarithms: Contrast) -> Ratio:
    """Return exp of a contrast of logarithms, with its 95 % interval."""
    ends = (logarithms.mean, *(logarithms.interval(0.95) or (math.nan, math.nan)))
    value, low, high = (None if math.isnan(end) else math.exp(end) for end in ends)
    return Ratio(ratio=value, low=low, high=high, new_low=None, new_high=None)
