"""Compute intervals and tests from arrays with one value per seed.

Quantiles come from `scipy.special`, because importing `scipy.stats` takes half a second.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

MIN_SEEDS = 3  # with fewer seeds no spread is estimated, and no interval is given


class Interval(NamedTuple):
    low: float
    high: float


class Ratio(NamedTuple):
    """Hold a geometric mean of ratios and its 95 % interval. Unknown values are None."""

    ratio: float | None
    low: float | None
    high: float | None


class Mean(NamedTuple):
    """Hold a mean and its 95 % interval. A new value falls between `new_low` and `new_high` with 95 % probability."""

    mean: float | None
    low: float | None
    high: float | None
    new_low: float | None
    new_high: float | None


class Proportion(NamedTuple):
    """Hold `part` of `total` and the exact 95 % interval of the share (Clopper & Pearson, Biometrika 26, 1934)."""

    part: int
    total: int
    low: float
    high: float


def standard_deviation(values: np.ndarray, unit: float, num_roundings: int = 1) -> float:
    """Return the standard deviation of a sample (num_seeds,), but at least that of the values' own rounding.

    Equal results are no evidence finer than their resolution. Rounding to multiples of `unit` moves a value by up to
    unit/2 in both directions, evenly: with a standard deviation of unit/√12.

    Args:
        unit: the step in which results come, such as one test image; 0 for values that are not rounded.
        num_roundings: 2 for differences of two results, which add up two such errors.
    """
    return max(float(values.std(ddof=1)), unit * float(np.sqrt(num_roundings / 12)))


def mean(values: ArrayLike, unit: float = 0.0) -> Mean:
    """Return the mean of values (num_seeds,), its 95 % t-interval, and the 95 % interval of one new value.

    The interval of a new value is mean ± t s √(1 + 1/n): Hahn & Meeker, Statistical Intervals, 1991, equation 4.2. Both
    intervals are unknown with fewer than `MIN_SEEDS` values. `unit` is as in `standard_deviation`.
    """
    values = np.asarray(values, dtype=np.float64)
    count, average = len(values), float(values.mean()) if len(values) else None
    if average is None or count < MIN_SEEDS:
        return Mean(mean=average, low=None, high=None, new_low=None, new_high=None)
    quantile = scipy.special.stdtrit(count - 1, 0.975)
    spread = standard_deviation(values, unit)
    half, new_half = (float(spread * np.sqrt(factor) * quantile) for factor in (1 / count, 1 + 1 / count))
    ends = (average - half, average + half, average - new_half, average + new_half)
    return Mean(mean=average, **dict(zip(("low", "high", "new_low", "new_high"), ends, strict=True)))


def has_spread(values: np.ndarray) -> bool:
    """Tell whether values (num_seeds,) are enough, and differ enough, to estimate a spread.

    Accuracies come in steps of one example, so a few seeds can show equal differences by chance.
    """
    return len(values) >= MIN_SEEDS and bool(np.ptp(values) > 1e-9)


def proportion(count: int, total: int) -> Proportion:
    """Return `count` of `total` with the exact 95 % interval of the share; `total` is at least 1.

    The ends are quantiles of beta distributions: Clopper and Pearson, Biometrika 26, 1934.
    """
    low = scipy.special.betaincinv(count, total - count + 1, 0.025) if count else 0.0
    high = scipy.special.betaincinv(count + 1, total - count, 0.975) if count < total else 1.0
    return Proportion(part=count, total=total, low=float(low), high=float(high))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values by Holm's step-down method. An unknown p-value counts as a test and stays unknown.

    Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    values = np.array([1.0 if value is None else value for value in p_values])
    order = np.argsort(values)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return [None if value is None else float(new) for value, new in zip(p_values, adjusted, strict=True)]
