"""Compute intervals and tests from arrays with one value per seed.

Quantiles come from `scipy.special`, because importing `scipy.stats` takes half a second.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import ArrayLike

MIN_SEEDS = 3  # with fewer seeds no spread is estimated, and no interval is given


@dataclass(frozen=True)
class Estimate:
    """Hold a value and the ends of its 95 % interval. Unknown numbers are None."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None

    def mapped(self, function: Callable[[float], float]) -> Self:
        """Return the estimate of an increasing `function` of the value."""
        return type(self)(*(None if number is None else function(number) for number in astuple(self)))

    def lies_above(self, bound: float) -> bool:
        """Tell whether there is an interval, and all of it lies above `bound`."""
        return self.low is not None and self.low > bound

    def lies_below(self, bound: float) -> bool:
        return self.high is not None and self.high < bound


def standard_deviation(values: np.ndarray, unit: float, num_roundings: int = 1) -> float:
    """Return the standard deviation of a sample (num_seeds,), but at least that of the values' rounding.

    Equal results do not show that the spread is smaller than their resolution. Rounding to multiples of `unit` moves a
    value by up to unit/2 in either direction, with a standard deviation of unit/√12 if all shifts are equally likely.

    Args:
        unit: the step in which results come, such as one test image; 0 for values that are not rounded.
        num_roundings: how many rounded results make up a value, such as 2 for the difference of two results.
    """
    return max(float(values.std(ddof=1)), unit * float(np.sqrt(num_roundings / 12)))


def mean(values: ArrayLike, unit: float = 0.0, num_more: int = 0) -> Estimate:
    """Return the mean of values (num_seeds,), with a 95 % t-interval if there are at least `MIN_SEEDS` values.

    With `num_more` = 1, the interval is for one new value in place of the mean: mean ± t s √(1 + 1/n) (Hahn & Meeker,
    Statistical Intervals, 1991, equation 4.2). `unit` is as in `standard_deviation`.
    """
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        return Estimate()
    average = float(values.mean())
    if len(values) < MIN_SEEDS:
        return Estimate(average)
    spread = standard_deviation(values, unit) * np.sqrt(num_more + 1 / len(values))
    half = float(spread * scipy.special.stdtrit(len(values) - 1, 0.975))
    return Estimate(average, average - half, average + half)


def has_spread(values: np.ndarray) -> bool:
    """Tell whether values (num_seeds,) are enough, and differ enough, to estimate a spread.

    Accuracies come in steps of one example, so a few seeds can show equal differences by chance.
    """
    return len(values) >= MIN_SEEDS and bool(np.ptp(values) > 1e-9)


def proportion(count: int, total: int) -> Estimate:
    """Return the share `count` / `total` with its exact 95 % interval; `total` is at least 1.

    The ends are quantiles of beta distributions: Clopper and Pearson, Biometrika 26, 1934.
    """
    low = scipy.special.betaincinv(count, total - count + 1, 0.025) if count else 0.0
    high = scipy.special.betaincinv(count + 1, total - count, 0.975) if count < total else 1.0
    return Estimate(count / total, float(low), float(high))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values by Holm's step-down method. An unknown p-value counts as a test and stays unknown.

    Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    values = np.array([1.0 if value is None else value for value in p_values])
    order = np.argsort(values)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return [None if value is None else float(new) for value, new in zip(p_values, adjusted, strict=True)]
