"""Set what changes between variants beside what changes between seeds."""

import math

import numpy as np

from pipeline.statistics.intervals import MIN_SEEDS, Ratio, mean_interval


def ratio_to_seeds(of_variants: np.ndarray, of_seeds: np.ndarray) -> Ratio:
    """Return the mean of `of_variants` (num_seeds,) over that of two seeds, with a 95 % interval over seeds.

    Each seed is one of several pairs of seeds, which a plain t-interval over these would count as independent. So each
    seed is left out once, and the interval is that of Tukey's pseudo-values (Annals of Mathematical Statistics 29,
    1958, page 614) of the ratio's logarithm.

    Args:
        of_seeds: of every two seeds (num_seeds, num_seeds), symmetric with a diagonal of zeros.
    """
    num_seeds, total = len(of_variants), of_seeds.sum() / 2
    mean_of_seeds = total / math.comb(num_seeds, 2)
    if not mean_of_seeds:
        return Ratio(ratio=None, low=None, high=None, new_low=None, new_high=None)
    ratio, interval = float(of_variants.mean() / mean_of_seeds), None
    if num_seeds >= MIN_SEEDS:
        above = (of_variants.sum() - of_variants) / (num_seeds - 1)
        below = (total - of_seeds.sum(axis=1)) / math.comb(num_seeds - 1, 2)
        if (above > 0).all() and (below > 0).all():  # a zero has no logarithm
            pseudo_values = num_seeds * math.log(ratio) - (num_seeds - 1) * np.log(above / below)
            interval = mean_interval(pseudo_values, 0.95)
    low, high = map(math.exp, interval) if interval else (None, None)
    return Ratio(ratio=ratio, low=low, high=high, new_low=None, new_high=None)
