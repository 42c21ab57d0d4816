"""Has something changed since the baseline? The rule for scheduled repetitions, a pure function on numbers.

A campaign is outside where the mean of its k fresh seeds leaves t(.995, n − 1) · s · √(1/k + 1/n) around the mean of
the baseline's n seeds: the 99 % prediction interval for the mean of k new values (Hahn & Meeker, Statistical Intervals,
1991, § 4.7). Once is a warning. Twice in a row, on other seeds, in the same direction, is drift.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy

from pipeline.statistics.intervals import MIN_SEEDS
from pipeline.statistics.speeds import launch_spread

BAND_LEVEL = 0.99
Direction = Literal["up", "down"]


class Shift(NamedTuple):
    """The distance of a mean from the baseline's, and how far it may be; in the units of the values."""

    mean: float
    baseline: float
    allowed: float

    @property
    def direction(self) -> Direction | None:
        """Where to the mean has left the band; None where it is inside."""
        if abs(self.mean - self.baseline) <= self.allowed:
            return None
        return "up" if self.mean > self.baseline else "down"


def shift(baseline: Sequence[Sequence[float]], fresh: Sequence[float], negligible: float) -> Shift | None:
    """Compare fresh values, one a seed, with those of the baseline's campaigns; None where there are too few.

    What repeats from seed to seed within a campaign need not repeat from month to month. A baseline of three campaigns
    or more shows how campaigns vary: their means are the values then, and the fresh mean is one new value. Of fewer
    seeds than theirs it varies by more: by the difference of the variances of two such means.

    Args:
        baseline: values of each pinned campaign, one a seed.
        negligible: a shift up to this is none, however sure.
    """
    if not fresh:
        return None
    if len(baseline) >= MIN_SEEDS:
        values, num_fresh = [_mean(campaign) for campaign in baseline], 1
        of_fewer = _variance_within(baseline) * max(1 / len(fresh) - _mean([1 / len(each) for each in baseline]), 0.0)
    else:
        values, num_fresh, of_fewer = [value for campaign in baseline for value in campaign], len(fresh), 0.0
    if len(values) < MIN_SEEDS:
        return None
    variance = sum((value - _mean(values)) ** 2 for value in values) / (len(values) - 1)
    band = _quantile(len(values) - 1) * math.sqrt(variance * (1 / num_fresh + 1 / len(values)) + of_fewer)
    return Shift(_mean(fresh), _mean(values), max(band, negligible))


def shift_of_shares(baseline: tuple[int, int], fresh: tuple[int, int]) -> Shift | None:
    """Compare how many runs completed, each (completed, all), by Fisher's exact test; None where there were none.

    Where the test finds a difference at the level of the band, any is outside of it.
    """
    if not baseline[1] or not fresh[1]:
        return None
    table = [[completed, total - completed] for completed, total in (baseline, fresh)]
    differs = float(scipy.stats.fisher_exact(table).pvalue) <= 1 - BAND_LEVEL
    return Shift(fresh[0] / fresh[1], baseline[0] / baseline[1], 0.0 if differs else 1.0)


def shift_of_speeds(
    baseline: Sequence[np.ndarray], fresh: np.ndarray, weights: np.ndarray, negligible: float
) -> Shift | None:
    """Compare a contrast of fresh launch effects with that of the baseline's campaigns; None where there are too few.

    As `shift`, but launches take the place of seeds, and their spread is that of all variants together
    (`launch_spread`).

    Args:
        baseline: launch effects of each pinned campaign, (num_launches, num_variants), of log seconds, finite.
        fresh: those of the new campaign, with the same variants.
        weights: (num_variants,), with sum 0.
    """
    contrasts = [float(effects.mean(axis=0) @ weights) for effects in baseline]
    mean = float(fresh.mean(axis=0) @ weights)
    if len(baseline) >= MIN_SEEDS:
        return shift([[value] for value in contrasts], [mean], negligible)
    spreads = [launch_spread(effects) for effects in baseline if len(effects) > 1]
    freedom = sum(of_campaign for _, of_campaign in spreads)
    if not freedom:
        return None
    spread = math.sqrt(sum(value**2 * of_campaign for value, of_campaign in spreads) / freedom)
    launches = np.concatenate(baseline)
    of_one = spread * math.sqrt(float(weights @ weights))
    band = _quantile(freedom) * of_one * math.sqrt(1 / len(fresh) + 1 / len(launches))
    return Shift(mean, float(launches.mean(axis=0) @ weights), max(band, negligible))


def _quantile(degrees_of_freedom: int) -> float:
    return float(scipy.stats.t.ppf((1 + BAND_LEVEL) / 2, degrees_of_freedom))


def _variance_within(campaigns: Sequence[Sequence[float]]) -> float:
    """Return the pooled variance of the values of a campaign; 0 where each has a single one."""
    freedom = sum(len(campaign) - 1 for campaign in campaigns)
    squares = sum((value - _mean(campaign)) ** 2 for campaign in campaigns for value in campaign)
    return squares / freedom if freedom else 0.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
