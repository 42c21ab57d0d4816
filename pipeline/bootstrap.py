"""A second opinion on accuracy differences: a bootstrap over seeds × test examples."""

import numpy as np

from pipeline.statistics import Interval

NUM_DRAWS = 1000


class CrossedBootstrap:
    """Resamples seeds and test examples independently of each other (Owen, Annals of Applied Statistics 1, 2007).

    The t-interval over seeds takes the test set as given; this interval also covers another test set from the same
    source. Every pair of a benchmark is resampled alike.

    Args:
        num_examples: of the test set.
        seed: of the resampling.
    """

    def __init__(self, num_examples: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._seed = seed
        self.example_weights = np.empty((NUM_DRAWS, num_examples), np.float32)
        for draw in self.example_weights:
            draw[:] = np.bincount(rng.integers(num_examples, size=num_examples), minlength=num_examples)

    def seed_weights(self, num_seeds: int) -> np.ndarray:
        """How often each draw holds each seed, int64 (NUM_DRAWS, num_seeds)."""
        rng = np.random.default_rng([self._seed, num_seeds])
        return rng.multinomial(num_seeds, [1 / num_seeds] * num_seeds, NUM_DRAWS)

    def interval(self, gains: np.ndarray) -> Interval:
        """The 95 % percentile interval of the mean, in percentage points.

        Args:
            gains: int8 (num_seeds, num_examples), 1 where only the candidate is right, −1 where only the baseline is.
        """
        num_seeds, num_examples = gains.shape
        by_seed = self.example_weights @ gains.T.astype(np.float32) / num_examples
        means = (self.seed_weights(num_seeds) * by_seed).sum(axis=1) / num_seeds
        low, high = np.percentile(100 * means, [2.5, 97.5])
        return Interval(float(low), float(high))
