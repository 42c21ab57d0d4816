"""Weights in a few kilobytes that keep how far two runs of one model are apart."""

from collections.abc import Iterable

import numpy as np

NUM_BUCKETS = 1024


def sketch(weights: Iterable[np.ndarray]) -> np.ndarray:
    """Return the count sketch of `weights`, float32 (NUM_BUCKETS,).

    Every number is added, with a sign, into one of the buckets; both are drawn from its place alone, so they are the
    same for all runs of a model. The distance of two sketches is that of the weights, with a standard deviation of
    2.2 %: Charikar, Chen and Farach-Colton, "Finding frequent items in data streams" (2002). The variance of its square
    is at most 2 / NUM_BUCKETS of it: Weinberger et al., "Feature hashing for large scale multitask learning" (2009).
    """
    rng = np.random.default_rng(0)
    total = np.zeros(NUM_BUCKETS)
    for weight in weights:
        values = np.asarray(weight, np.float64).ravel()
        drawn = rng.integers(2 * NUM_BUCKETS, size=values.size, dtype=np.uint16)
        signs = np.where(drawn < NUM_BUCKETS, 1.0, -1.0)
        total += np.bincount(drawn % NUM_BUCKETS, signs * values, NUM_BUCKETS)
    return total.astype(np.float32)
