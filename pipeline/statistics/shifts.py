"""Decide whether the results of a campaign, a repetition of a study, have shifted from those of its baseline campaigns.

The band is the 99 % prediction interval for the mean of k new values: ±t(.995, n − 1) · s · √(1/k + 1/n) around the
mean of the baseline's n values (Hahn & Meeker, Statistical Intervals, 1991, § 4.7). Here s is the standard deviation of
the n values, but at least that of their rounding. A campaign gives a warning if the mean of its k fresh values is
outside the band. Two warnings in a row, with different seeds and in the same direction, are drift.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy

from pipeline.statistics.contrasts import launch_spread
from pipeline.statistics.intervals import MIN_SEEDS, standard_deviation

BAND_LEVEL = 0.99
Direction = Literal["up", "down"]


class Shift(NamedTuple):
    """Hold a mean, the baseline's mean, and the distance allowed between them, in the unit of the values."""

    mean: float
    baseline: float
    allowed: float

    @property
    def direction(self) -> Direction | None:
        """Return the direction in which `mean` left the band, or None if `mean` is inside."""
        if abs(self.mean - self.baseline) <= self.allowed:
            return None
        return "up" if self.mean > self.baseline else "down"


def shift(
    baseline: Sequence[Sequence[float]], fresh: Sequence[float], negligible: float, unit: float = 0.0
) -> Shift | None:
    """Compare fresh values, one per seed, with the baseline's campaigns. Return None if there are too few values.

    Values that agree within a campaign may differ from month to month. Three or more baseline campaigns show this
    variation. Then the band comes from the campaigns' means, and the fresh mean counts as one new value. If the fresh
    mean has fewer seeds than the campaigns' means, the fresh mean varies more, and the band is widened by the extra
    variance. With fewer campaigns, the band comes from all values of the baseline.

    Args:
        baseline: values of each pinned campaign, one per seed.
        negligible: a shift up to this size never counts, however significant it is.
        unit: the step in which values come, as in `standard_deviation`.
    """
    if not fresh:
        return None
    if len(baseline) >= MIN_SEEDS:
        values, num_fresh = [_mean(campaign) for campaign in baseline], 1
        of_mean = _mean([1 / len(each) for each in baseline])  # the variance of a campaign's mean, if a value's is 1
        of_fewer = _variance_within(baseline) * max(1 / len(fresh) - of_mean, 0.0)
        unit *= math.sqrt(of_mean)
    else:
        values, num_fresh, of_fewer = [value for campaign in baseline for value in campaign], len(fresh), 0.0
    if len(values) < MIN_SEEDS:
        return None
    variance = standard_deviation(np.array(values), unit) ** 2
    band = _quantile(len(values) - 1) * math.sqrt(variance * (1 / num_fresh + 1 / len(values)) + of_fewer)
    return Shift(_mean(fresh), _mean(values), max(band, negligible))


def shift_of_shares(baseline: tuple[int, int], fresh: tuple[int, int]) -> Shift | None:
    """Compare shares of completed runs, each given as (completed, all), by Fisher's exact test.

    If the test finds a difference at 1 %, the band of the shift has no width; otherwise it covers every share. Return
    None if one side has no runs.
    """
    if not baseline[1] or not fresh[1]:
        return None
    table = [[completed, total - completed] for completed, total in (baseline, fresh)]
    differs = float(scipy.stats.fisher_exact(table).pvalue) <= 1 - BAND_LEVEL
    return Shift(fresh[0] / fresh[1], baseline[0] / baseline[1], 0.0 if differs else 1.0)


def shift_of_speeds(
    baseline: Sequence[np.ndarray], fresh: np.ndarray, weights: np.ndarray, negligible: float
) -> Shift | None:
    """Compare a contrast of launch effects with the baseline campaigns' contrast. Return None with too few launches.

    Apply the rule of `shift`, with launches in place of seeds and a spread over all variants (`launch_spread`).

    Args:
        baseline: finite launch effects of log seconds in each pinned campaign, (num_launches, num_variants).
        fresh: finite launch effects of the new campaign, (num_launches, num_variants), with the same variants.
        weights: (num_variants,), with sum 0.
        negligible: as in `shift`, in log seconds.
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
    """Return the variance within campaigns, pooled over them, or 0 if each has a single value."""
    freedom = sum(len(campaign) - 1 for campaign in campaigns)
    squares = sum((value - _mean(campaign)) ** 2 for campaign in campaigns for value in campaign)
    return squares / freedom if freedom else 0.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
