"""Compare what runs predict: a candidate with its baseline, and beside that, the baseline with itself at another seed.

Another seed changes predictions too. The question is whether precision changes more of them.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pipeline.comparison.blocks import Run
from pipeline.comparison.schema import MIN_COMPARED_SEEDS, Agreement, Pair
from pipeline.statistics.intervals import MIN_BLOCKS, Ratio, mean_interval
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

        def predicted(variant: str, seed: int, benchmark: str = pair.benchmark) -> np.ndarray:
            return runs[RunKey(benchmark, variant, seed)].predicted

        names = pair.baseline, pair.candidate
        seeds = [s for s in study.seeds_of(pair.benchmark) if all(len(predicted(name, s)) for name in names)]
        if len(seeds) >= MIN_COMPARED_SEEDS:
            theirs, ours = (np.stack([predicted(name, seed) for seed in seeds]) for name in names)
            found.append(
                Agreement(
                    benchmark=pair.benchmark,
                    baseline=pair.baseline,
                    candidate=pair.candidate,
                    seeds=seeds,
                    **differing(theirs, ours, labels[pair.benchmark]),
                )
            )
    return found


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
    classes = np.unique(labels)
    return {
        "between_variants": of_variants.tolist(),
        "between_seeds": of_seeds[np.triu_indices(num_seeds, 1)].tolist(),
        "ratio": ratio_to_seeds(of_variants, of_seeds),
        "classes": classes.tolist(),
        "class_between_variants": [float(by_variant[:, labels == each].mean()) for each in classes],
        "class_between_seeds": [float(by_seed[labels == each].mean()) for each in classes],
    }


def ratio_to_seeds(of_variants: np.ndarray, of_seeds: np.ndarray) -> Ratio:
    """Return the mean of `of_variants` (num_seeds,) over that of two seeds, with a 95 % interval over seeds.

    Two seeds belong to two blocks, which a plain t-interval over pairs of seeds would count as independent. So each
    seed is left out once, and Tukey's pseudo-values (Annals of Mathematical Statistics 29, 1958, page 614) of the
    ratio's logarithm are its blocks.

    Args:
        of_seeds: of every two seeds (num_seeds, num_seeds), symmetric with a diagonal of zeros.
    """
    num_seeds, total = len(of_variants), of_seeds.sum() / 2
    mean_of_seeds = total / math.comb(num_seeds, 2)
    if not mean_of_seeds:
        return Ratio(ratio=None, low=None, high=None, new_low=None, new_high=None)
    ratio, interval = float(of_variants.mean() / mean_of_seeds), None
    if num_seeds >= MIN_BLOCKS:
        above = (of_variants.sum() - of_variants) / (num_seeds - 1)
        below = (total - of_seeds.sum(axis=1)) / math.comb(num_seeds - 1, 2)
        if (above > 0).all() and (below > 0).all():  # a zero has no logarithm
            pseudo_values = num_seeds * math.log(ratio) - (num_seeds - 1) * np.log(above / below)
            interval = mean_interval(pseudo_values, 0.95)
    low, high = map(math.exp, interval) if interval else (None, None)
    return Ratio(ratio=ratio, low=low, high=high, new_low=None, new_high=None)
