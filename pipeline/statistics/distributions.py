"""Quantiles and probabilities, by scipy.special: those of scipy.stats to the bit, which takes a second to import."""

import numpy as np
from scipy import special


def t_quantile(probability: float, freedom: int) -> float:
    """Return the value below which Student's t with `freedom` degrees falls with `probability`."""
    return float(special.stdtrit(freedom, probability))


def t_below(value: float, freedom: int) -> float:
    """Return the probability that Student's t with `freedom` degrees falls below `value`."""
    return float(special.stdtr(freedom, value))


def normal_below(values: np.ndarray) -> np.ndarray:
    """Return the probabilities that a standard normal variable falls below each of `values`, of any shape."""
    return np.asarray(special.ndtr(values))


def chi_density(values: np.ndarray, freedom: int) -> np.ndarray:
    """Return the density of the chi distribution with `freedom` degrees at each of `values` > 0, of any shape."""
    constant = np.log(2) - 0.5 * np.log(2) * freedom - special.gammaln(0.5 * freedom)
    return np.asarray(np.exp(constant + special.xlogy(freedom - 1.0, values) - 0.5 * values**2))


def chi_squared_quantile(probability: float, freedom: int) -> float:
    """Return the value below which a chi-squared variable with `freedom` degrees falls with `probability`."""
    return float(2 * special.gammaincinv(freedom / 2, probability))


def share_limits(count: int, total: int, error: float) -> tuple[float, float]:
    """Return Clopper and Pearson's exact limits of the share of which `count` of `total` were seen.

    The share lies below the lower one, and above the upper one, with probability `error` each at most.
    """
    low = special.betaincinv(count, total - count + 1, error) if count else 0.0
    high = special.betainccinv(count + 1, total - count, error) if count < total else 1.0
    return float(low), float(high)
