"""Compare what runs predict: a candidate with its baseline, the baseline at two seeds.

Another seed changes predictions too. The question is whether precision changes more of them.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.comparison.finished_runs import Run
from pipeline.comparison.schema import MIN_COMPARED_SEEDS, Agreement, Pair
from pipeline.statistics.seeds import ratio_to_seeds
from pipeline.study.schema import RunKey, Study


def agreements(
    study: Study, pairs: Iterable[Pair], runs: Mapping[RunKey, Run], labels: Mapping[str, np.ndarray]
) -> list[Agreement]:
    """Return the agreement of every pair that completed at least two seeds together.

    Args:
        labels: of the test set (num_test_examples,), by benchmark.
    """
    found = []
    for pair in pairs:

        def of(variant: str, seed: int, benchmark: str = pair.benchmark) -> Run:
            return runs[RunKey(benchmark, variant, seed)]

        names = pair.baseline, pair.candidate
        fewest = min((study.seeds_of(pair.benchmark, name) for name in names), key=len)
        seeds = [seed for seed in fewest if all(len(of(name, seed).predicted) for name in names)]
        if len(seeds) >= MIN_COMPARED_SEEDS:
            theirs, ours = ([of(name, seed) for seed in seeds] for name in names)
            found.append(
                Agreement(
                    benchmark=pair.benchmark,
                    baseline=pair.baseline,
                    candidate=pair.candidate,
                    seeds=seeds,
                    **differing(_predicted(theirs), _predicted(ours), labels[pair.benchmark]),
                )
            )
    return found


def _predicted(runs: Sequence[Run]) -> np.ndarray:
    return np.stack([run.predicted for run in runs])


def differing(theirs: np.ndarray, ours: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Return the shares and the ratio of an `Agreement`, by field.

    Args:
        theirs, ours: the classes that baseline and candidate predict (num_seeds, num_examples), two seeds or more.
        labels: the true classes (num_examples,).
    """
    num_seeds = len(theirs)
    by_variant = theirs != ours
    of_variants = by_variant.mean(axis=1)
    of_seeds = np.zeros((num_seeds, num_seeds))  # symmetric
    by_seed = np.zeros(len(labels))  # summed over all two seeds
    for one, other in itertools.combinations(range(num_seeds), 2):
        differs = theirs[one] != theirs[other]
        of_seeds[one, other] = of_seeds[other, one] = differs.mean()
        by_seed += differs
    num_pairs = math.comb(num_seeds, 2)
    by_seed /= num_pairs
    classes, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return {
        "between_variants": of_variants.tolist(),
        "between_seeds": of_seeds[np.triu_indices(num_seeds, 1)].tolist(),
        "ratio": ratio_to_seeds(of_variants, of_seeds),
        "classes": classes.tolist(),
        "class_between_variants": (np.bincount(place, by_variant.mean(axis=0)) / counts).tolist(),
        "class_between_seeds": (np.bincount(place, by_seed) / counts).tolist(),
    }
