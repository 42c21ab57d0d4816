"""Compare two variants that share no seeds: Welch's t-test, and two one-sided ones within a margin.

The mean difference has the standard error √(s₁²/n₁ + s₂²/n₂), with about as many degrees of freedom as Satterthwaite
says (Welch, Biometrika 34, 1947; Satterthwaite, Biometrics Bulletin 2, 1946). A mean of paired differences has its own,
n − 1: seeds are planned for both alike.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

from pipeline.statistics.equivalence import (
    UNKNOWN,
    Design,
    Equivalence,
    PValues,
    detectable_margin,
    num_seeds_needed,
    of_losses,
    outcome,
)
from pipeline.statistics.intervals import MIN_SEEDS, Difference, Interval, Ratio, has_spread


class Contrast(NamedTuple):
    """Hold a mean difference, candidate less baseline, its standard error and its degrees of freedom.

    `spread` is the standard deviation of the difference of two runs, one of each variant; `freedom_per_seed` counts the
    degrees of freedom that one more seed of each brings. Variants that agree to the last example have an error of 0.
    What is unknown is NaN.
    """

    mean: float
    error: float = math.nan
    freedom: float = math.inf
    spread: float = math.nan
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
        """Return the p-value of the one-sided test that the difference lies above `bound`."""
        if not self.error:
            return float(self.mean <= bound)
        return float(scipy.stats.t.sf((self.mean - bound) / self.error, self.freedom))

    def beyond(self, bound: float) -> float:
        """Return twice the p-value that the difference lies beyond ±bound on the side of its mean."""
        return min(1.0, 2 * self._replace(mean=abs(self.mean)).above(bound))


def contrast(baseline: np.ndarray, candidate: np.ndarray) -> Contrast:
    """Compare the values of two variants (num_seeds,), each with seeds of its own.

    The error is unknown with fewer than `MIN_SEEDS` of either, and where neither has a spread and yet they differ.
    """
    if not len(baseline) or not len(candidate):
        return Contrast(math.nan)
    mean = float(candidate.mean() - baseline.mean())
    if min(len(baseline), len(candidate)) < MIN_SEEDS:
        return Contrast(mean)
    if not has_spread(baseline) and not has_spread(candidate):
        return Contrast(mean) if mean else Contrast(0.0, error=0.0, spread=0.0)
    numbers = np.array([len(baseline), len(candidate)])
    variances = np.array([baseline.var(ddof=1), candidate.var(ddof=1)])
    shares, total = variances / numbers, variances.sum()
    freedom = shares.sum() ** 2 / (shares**2 / (numbers - 1)).sum()
    per_seed = total**2 / (variances**2).sum()
    return Contrast(mean, float(np.sqrt(shares.sum())), float(freedom), float(np.sqrt(total)), float(per_seed))


def difference(found: Contrast, p_value_holm: float | None = None) -> Difference:
    """Return mean, intervals and two-sided test of a contrast, as `intervals.difference` does of paired differences."""
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


def p_values(found: Contrast, margin: float, is_one_sided: bool = False) -> PValues:
    """Return the p-values of a contrast, as `equivalence.p_values` does of paired differences."""
    if not found.is_known:
        return UNKNOWN
    not_less, not_more = found.above(-margin), found._replace(mean=-found.mean).above(-margin)
    both = PValues(max(not_less, not_more), found.beyond(0.0), found.beyond(margin))
    return of_losses(both._replace(within=not_less), found.mean) if is_one_sided else both


def equivalence(
    found: Contrast,
    margin: float,
    num_candidates: int = 1,
    adjusted: PValues = UNKNOWN,
    is_selection: bool = False,
    is_one_sided: bool = False,
) -> Equivalence:
    """Test that a contrast lies within ±margin, as `equivalence.equivalence` does of paired differences.

    The seeds that are needed are those of each variant.
    """
    detectable = needed = None
    if found.is_known:
        design = Design(is_one_sided, found.freedom_per_seed)
        needed = num_seeds_needed(found.spread, margin, num_candidates, found.mean, design)
    if found.is_known and found.error:
        num_seeds = (found.spread / found.error) ** 2  # of each variant: as many would have this error
        here = Design(is_one_sided, found.freedom / (num_seeds - 1))
        detectable = detectable_margin(found.spread, num_seeds, num_candidates, here)
    return Equivalence(
        margin_pp=margin,
        num_candidates=num_candidates,
        p_value=p_values(found, margin, is_one_sided).within,
        p_value_holm=adjusted.within,
        outcome=outcome(None if is_selection else adjusted.within, adjusted.differs),
        spread_pp=found.spread if found.is_known else None,
        detectable_margin_pp=detectable,
        num_seeds_needed=needed,
        beyond_p_value_holm=adjusted.beyond,
    )


def ratio(found: Contrast) -> Ratio:
    """Return exp of a contrast of logarithms with its 95 % interval."""
    ends = (found.mean, *(found.interval(0.95) or (math.nan, math.nan)))
    mean, low, high = (None if math.isnan(end) else math.exp(end) for end in ends)
    return Ratio(ratio=mean, low=low, high=high, new_low=None, new_high=None)
