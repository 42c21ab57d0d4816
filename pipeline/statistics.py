"""Paired statistics over seeds: pure functions on arrays, one value a seed block."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

MIN_BLOCKS = 3  # with fewer, no interval is given
EquivalenceOutcome = Literal["equivalent", "different", "equivalent but shifted", "inconclusive"]


class Statistic(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ratio(Statistic):
    """A geometric mean of ratios with its 95 % interval; None where there are too few blocks."""

    ratio: float | None
    low: float | None
    high: float | None


class Difference(Statistic):
    """A mean paired difference in percentage points with its 90 % and 95 % intervals."""

    mean: float | None
    low90: float | None
    high90: float | None
    low95: float | None
    high95: float | None


class Equivalence(Statistic):
    """Two one-sided tests within ±`margin_pp`; `detectable_margin_pp` is what this n and spread could establish."""

    margin_pp: float
    p_value: float | None
    outcome: EquivalenceOutcome
    detectable_margin_pp: float | None


def ratio(logarithms: ArrayLike) -> Ratio:
    """Exp of the mean of log ratios (num_blocks,), and of its 95 % t-interval.

    Times are skewed to the right and blocks few: the t-interval on logarithms keeps its coverage where a bootstrap at
    n ≈ 5 falls to about 80 %.
    """
    logarithms = np.asarray(logarithms, dtype=np.float64)
    if not len(logarithms):
        return Ratio(ratio=None, low=None, high=None)
    interval = mean_interval(logarithms, 0.95)
    low, high = (None, None) if interval is None else (float(np.exp(bound)) for bound in interval)
    return Ratio(ratio=float(np.exp(logarithms.mean())), low=low, high=high)


def difference(differences_pp: ArrayLike) -> Difference:
    """Mean and intervals of paired differences (num_blocks,), in percentage points."""
    values = np.asarray(differences_pp, dtype=np.float64)
    low90, high90 = mean_interval(values, 0.90) or (None, None)
    low95, high95 = mean_interval(values, 0.95) or (None, None)
    mean = float(values.mean()) if len(values) else None
    return Difference(mean=mean, low90=low90, high90=high90, low95=low95, high95=high95)


def equivalence(differences_pp: ArrayLike, margin_pp: float) -> Equivalence:
    """Whether paired differences (num_blocks,) lie within ±margin: TOST at 5 % beside the 95 % interval.

    The smallest margin that n blocks of spread s establish with 80 % power when nothing differs is
    (t[0.95, n − 1] + t[0.90, n − 1]) s / √n (Chow, Shao & Wang, Sample Size Calculations in Clinical Research, 2008,
    equation 3.1.9 solved for the margin).
    """
    values = np.asarray(differences_pp, dtype=np.float64)
    interval = mean_interval(values, 0.95)
    if interval is None:
        return Equivalence(margin_pp=margin_pp, p_value=None, outcome="inconclusive", detectable_margin_pp=None)
    n, spread = len(values), values.std(ddof=1)
    if spread:
        p_value = float(ttost_paired(values, np.zeros(n), -margin_pp, margin_pp)[0])
    else:  # every block alike: nothing to estimate
        p_value = 0.0 if abs(values[0]) < margin_pp else 1.0
    within, shifted = p_value < 0.05, not interval[0] <= 0 <= interval[1]
    outcomes: dict[tuple[bool, bool], EquivalenceOutcome] = {
        (True, False): "equivalent",
        (True, True): "equivalent but shifted",
        (False, True): "different",
        (False, False): "inconclusive",
    }
    quantiles = stats.t.ppf([0.95, 0.90], n - 1)
    return Equivalence(
        margin_pp=margin_pp,
        p_value=p_value,
        outcome=outcomes[within, shifted],
        detectable_margin_pp=float(quantiles.sum() * spread / np.sqrt(n)),
    )


def mean_interval(values: np.ndarray, confidence: float) -> tuple[float, float] | None:
    """The two-sided t-interval of the mean of values (num_blocks,); None with fewer than `MIN_BLOCKS`."""
    if len(values) < MIN_BLOCKS:
        return None
    mean, error = values.mean(), stats.sem(values)
    if error == 0:
        return float(mean), float(mean)
    low, high = stats.t.interval(confidence, len(values) - 1, loc=mean, scale=error)
    return float(low), float(high)
