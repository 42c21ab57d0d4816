"""Candidates that answer one question are a family: their p-values are adjusted for their number."""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from pipeline.statistics.equivalence import EquivalenceOutcome, outcome
from pipeline.statistics.intervals import holm

Names = tuple[str, str]  # of a pair: baseline, candidate


class Tests(NamedTuple):
    """The p-values of one pair: of "within the margin" and of "no difference"; None where they are unknown."""

    equivalence: float | None
    difference: float | None

    def outcome(self, is_selection: bool) -> EquivalenceOutcome:
        """Return the outcome. Seeds that only one of two variants completed leave a selection, never equivalent."""
        return outcome(None if is_selection else self.equivalence, self.difference)


def adjust(tests: Mapping[Names, Tests], families: Mapping[Names, Hashable]) -> dict[Names, Tests]:
    """Adjust p-values by Holm's method over each family; every pair stands in one."""
    members: dict[Hashable, list[Names]] = defaultdict(list)
    for pair, family in families.items():
        members[family].append(pair)
    adjusted: dict[Names, Tests] = {}
    for pairs in members.values():
        same, other = (holm(p_values) for p_values in zip(*(tests[pair] for pair in pairs), strict=True))
        adjusted |= {pair: Tests(*values) for pair, values in zip(pairs, zip(same, other, strict=True), strict=True)}
    return adjusted


def corners(conditions: Mapping[str, Mapping[str, Any]], baseline: str, candidate: str) -> Names | None:
    """Name the variants that change only the policy and only the batch, where the candidate changes both.

    None where policy and batch do not both differ, where anything else does, or where no such variant is run.
    """
    first, last = conditions[baseline], conditions[candidate]
    policy = {name: last[name] for name in ("policy", "loss_scale")}  # the scale belongs to the policy
    batch = {"batch_multiplier": last["batch_multiplier"]}
    by_policy, by_batch = dict(first) | policy, dict(first) | batch
    if last in (by_policy, by_batch) or last != by_policy | batch:
        return None
    found = [next((n for n, other in conditions.items() if other == corner), None) for corner in (by_policy, by_batch)]
    return (found[0], found[1]) if found[0] and found[1] else None
