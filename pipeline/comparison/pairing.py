"""Compare the results of candidates with those of a baseline, for a study or for a user's own table of runs."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.comparison.tables import Row
from pipeline.statistics.equivalence import (
    MAX_MARGIN_SHARE,
    UNKNOWN,
    Contrast,
    Loss,
    PValues,
    adjust,
    is_beyond,
    loss,
    num_seeds_needed,
    outcome,
    p_values,
    paired,
    unpaired,
)
from pipeline.statistics.intervals import MIN_SEEDS, Estimate

Runs = Mapping[Any, Row]  # the runs of a variant, by seed


class Question(NamedTuple):
    """Ask if a candidate's results differ from the baseline's by less than `margin`, in the unit of the results.

    A one-sided question ignores gains: it asks if the candidate loses less than `margin`.
    """

    margin: float
    is_lower_better: bool = False
    is_one_sided: bool = False


class Side(NamedTuple):
    """Hold the runs of a variant by seed, and the seeds (`shared`) of the runs that are compared."""

    runs: Runs
    shared: list[Any]

    @property
    def results(self) -> np.ndarray:
        """Return the results of the compared runs, float64 (num_seeds,)."""
        return np.array([self.runs[seed].result for seed in self.shared], dtype=np.float64)

    @property
    def unit(self) -> float:
        """Return the step in which results come: the smallest `unit` of the compared runs, or 0 if there are none."""
        return min((float(self.runs[seed].unit) for seed in self.shared), default=0.0)


class Pair(NamedTuple):
    """Hold the runs of a baseline and of a candidate, and the contrast between their results.

    `reason` is the reason why tests of the contrast can't be trusted, or None.
    """

    baseline: Side
    candidate: Side
    contrast: Contrast
    reason: str | None

    @property
    def is_paired(self) -> bool:
        return self.baseline.shared == self.candidate.shared


def set_beside(
    runs: Mapping[str, Runs],
    pairs: Sequence[tuple[str, str]],
    families: Sequence[Hashable],
    num_losses: Sequence[int],
    asked: Question,
) -> list[dict[str, Any]]:
    """Compare the results of each pair, and return one row per pair, in the results' unit.

    Runs are paired by the seeds that both variants completed. If there are fewer than `MIN_SEEDS` such seeds, and each
    variant has seeds that the other lacks, the runs are compared unpaired, by Welch's test.

    Args:
        runs: by variant and seed. Each run has `outcome`, `result` and `unit`, which is the step in which results come,
            such as 1 / num_test_examples. The fields `precision`, `final_weights_sha256` and `num_predicted_classes`
            may be None.
        pairs: (baseline, candidate) of each pair.
        families: a key for each pair. Holm's method adjusts p-values over the pairs with the same key.
        num_losses: for each pair, the number of candidates whose losses are bounded together, or 0 for no bound.
        asked: the margin and the direction.
    """
    compared = [_compare(runs[baseline], runs[candidate], asked) for baseline, candidate in pairs]
    sign = -1 if asked.is_lower_better else 1
    gains = [pair.contrast._replace(mean=sign * pair.contrast.mean) for pair in compared]
    tested = [
        UNKNOWN if pair.reason in NO_TEST else p_values(gain, asked.margin, asked.is_one_sided)
        for pair, gain in zip(compared, gains, strict=True)
    ]
    return [
        _counts(pair)
        | {"difference": _difference(pair), "is_paired": pair.is_paired, "reason": pair.reason}
        | _tests(pair.reason, adjusted, families.count(family))
        | _losses(pair, gain, num, asked)
        for pair, gain, family, adjusted, num in zip(
            compared, gains, families, adjust(tested, families), num_losses, strict=True
        )
    ]


# A margin wider than this share of the baseline's mean means nothing. Accuracies have MAX_MARGIN_SHARE instead.
MAX_SHARE_OF_LOSS = 0.5
# Reasons that make any test of the results meaningless.
NO_TEST = ("identical", "rounded", "one_class", "too_few_seeds")
MIN_PLANNING_SEEDS = 5  # fewer seeds estimate the spread too poorly to plan the number of seeds


def _compare(theirs: Runs, ours: Runs, asked: Question) -> Pair:
    baseline, candidate = sides_of(theirs, ours)
    unit = max(baseline.unit, candidate.unit)  # that of the coarser results
    if baseline.shared == candidate.shared:
        contrast = paired(candidate.results - baseline.results, unit)
    else:
        contrast = unpaired(baseline.results, candidate.results, unit)
    return Pair(baseline, candidate, contrast, _reason(baseline, candidate, asked))


def sides_of(theirs: Runs, ours: Runs) -> tuple[Side, Side]:
    """Return the runs that `set_beside` compares: runs with seeds that both variants completed, or all completed runs.

    All completed runs are compared if the two variants share fewer than `MIN_SEEDS` completed seeds, and each has
    seeds that the other lacks.
    """
    completed = [[seed for seed, run in runs.items() if run.outcome == "completed"] for runs in (theirs, ours)]
    shared = [seed for seed in completed[0] if seed in completed[1]]
    if len(shared) >= MIN_SEEDS or theirs.keys() <= ours.keys() or ours.keys() <= theirs.keys():
        return Side(theirs, shared), Side(ours, shared)
    return Side(theirs, completed[0]), Side(ours, completed[1])


def _reason(theirs: Side, ours: Side, asked: Question) -> str | None:
    """Return the reason why tests of these results can't be trusted, or None."""
    a, b = theirs.results, ours.results
    runs = [side.runs[seed] for side in (theirs, ours) for seed in side.shared]
    if max(theirs.unit, ours.unit) > asked.margin:  # such coarse results agree by chance
        return "rounded"
    if len(a) and {run.num_predicted_classes for run in runs} == {1}:
        return "one_class"
    if _are_identical(theirs, ours):
        return "identical"
    if min(len(a), len(b)) < MIN_SEEDS:
        return "too_few_seeds"
    if any(_failed_beside(one, other) for one, other in ((theirs, ours), (ours, theirs))):
        return "runs_failed"
    is_accuracy = not asked.is_lower_better and 0 <= a.min() <= a.max() <= 100
    if asked.margin > (MAX_MARGIN_SHARE if is_accuracy else MAX_SHARE_OF_LOSS) * abs(float(a.mean())):
        return "near_chance"
    return None


def _are_identical(theirs: Side, ours: Side) -> bool:
    """Return True if the results or the final weights of the two sides are equal, so that nothing can be tested.

    Equal final weights count only if the two sides differ in precision. Equal results count only if each side has at
    least `MIN_SEEDS` results.
    """
    a, b = ([side.runs[seed] for seed in side.shared] for side in (theirs, ours))
    if not a or not b:
        return False
    digests = [[run.final_weights_sha256 for run in runs] for runs in (a, b)]
    if a[0].precision != b[0].precision and all(map(all, digests)) and digests[0] == digests[1]:
        return True
    is_paired = theirs.shared == ours.shared
    results = [side.results if is_paired else np.sort(side.results) for side in (theirs, ours)]
    # One result may have fewer digits than the other.
    is_same = len(results[0]) == len(results[1]) and np.allclose(results[0], results[1], rtol=1e-6, atol=0)
    return len(a) >= MIN_SEEDS and bool(is_same)


def _failed_beside(side: Side, other: Side, how: str | None = None) -> int:
    """Count the failed runs of `side` whose seed the other variant completed or lacks.

    If `how` is given, count only runs with that outcome.
    """
    return sum(
        run.outcome != "completed" and how in (None, run.outcome)
        for seed, run in side.runs.items()
        if seed not in other.runs or other.runs[seed].outcome == "completed"
    )


def _counts(pair: Pair) -> dict[str, Any]:
    sides = {"baseline": (pair.baseline, pair.candidate), "candidate": (pair.candidate, pair.baseline)}
    counts: dict[str, Any] = {"num_seeds": min(len(pair.baseline.shared), len(pair.candidate.shared))}
    for name, (side, other) in sides.items():
        completed = [seed for seed, run in other.runs.items() if run.outcome == "completed"]
        counts[f"missing_{name}"] = [str(seed) for seed in completed if seed not in side.runs]
        counts[f"num_failed_{name}"] = _failed_beside(side, other)
        counts[f"num_diverged_{name}"] = _failed_beside(side, other, "diverged")
        counts[f"{name}_mean"] = float(side.results.mean()) if side.shared else None
    return counts


def _difference(pair: Pair) -> Estimate:
    estimate = pair.contrast.estimate
    return Estimate(estimate.value) if pair.reason in NO_TEST else estimate


def _losses(pair: Pair, gain: Contrast, num_candidates: int, asked: Question) -> dict[str, Any]:
    """Return the largest loss that the results leave possible, its p-value, and the number of seeds that would decide.

    All three are None if `num_candidates` is 0, or if the pair has a `reason` not to trust tests. The number of seeds
    is given only if the largest loss is not below the margin. The number assumes a true difference of 0. So no number
    is given if the results show a loss, or if there are fewer than `MIN_PLANNING_SEEDS` seeds.
    """
    found, needed = Loss(), None
    if num_candidates and pair.reason is None:
        found = loss(gain, asked.margin, num_candidates)
        num_seeds = min(len(pair.baseline.shared), len(pair.candidate.shared))
        is_open = (found.most or 0.0) >= asked.margin and not gain.estimate.lies_below(0)
        if is_open and num_seeds >= MIN_PLANNING_SEEDS:
            planned = num_seeds_needed(gain.spread, asked.margin, num_candidates, asked.is_one_sided)
            needed = planned if planned and planned > num_seeds else None
    return {"most_loss": found.most, "p_loss_within_margin": found.p_within_margin, "num_seeds_needed": needed}


def _tests(reason: str | None, adjusted: PValues, num_candidates: int) -> dict[str, Any]:
    """Return the adjusted p-values and the outcome that follows from these p-values.

    If there is a `reason` for doubt, the outcome is "different" for a difference beyond the margin, and otherwise
    "inconclusive".
    """
    decided = outcome(adjusted.within, adjusted.differs)
    if reason:
        decided = "different" if is_beyond(adjusted.beyond) else "inconclusive"
    return {
        "num_candidates": num_candidates,
        "p_different": adjusted.differs,
        "p_equivalent": adjusted.within,
        "p_beyond_margin": adjusted.beyond,
        "outcome": decided,
    }
