"""Measure how far apart runs end: a candidate and its baseline, and beside that, the baseline at two seeds."""

import itertools
from collections.abc import Sequence

import numpy as np

from pipeline.comparison.schema import WeightDistance
from pipeline.statistics.seeds import ratio_to_seeds


def weight_distance(starts: np.ndarray, theirs: np.ndarray, ours: np.ndarray) -> WeightDistance | None:
    """Return how far apart weights are, in units of how far the baseline's training moves them; None if it doesn't.

    Args:
        starts, theirs: sketches of the baseline's weights at the start and at the end (num_seeds, NUM_BUCKETS).
        ours: of the candidate's at the end, as `theirs`.
    """
    starts, theirs, ours = (np.asarray(each, np.float64) for each in (starts, theirs, ours))
    moved = float(np.linalg.norm(theirs - starts, axis=1).mean())
    if not moved:
        return None
    of_variants = np.linalg.norm(ours - theirs, axis=1) / moved
    of_seeds = _each_two(theirs) / moved
    upper = np.triu_indices(len(theirs), 1)
    return WeightDistance(
        between_variants=of_variants.tolist(),
        between_seeds=of_seeds[upper].tolist(),
        between_starts=(_each_two(starts) / moved)[upper].tolist(),
        ratio=ratio_to_seeds(of_variants, of_seeds),
    )


def _each_two(points: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return the distance of every two of `points` (N, M), as (N, N)."""
    found = np.zeros((len(points), len(points)))
    for one, other in itertools.combinations(range(len(points)), 2):
        found[one, other] = found[other, one] = np.linalg.norm(points[one] - points[other])
    return found
