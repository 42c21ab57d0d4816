"""Arrange what a training step's time goes to: a row a kind of operation, a column a policy."""

from typing import Any

from pipeline.records.step_profile import KINDS, ProfiledKind
from pipeline.report.results import Results

MIN_MILLISECONDS = 0.05  # of a kind under any policy: others round to nothing


def step_profile(results: Results, benchmark: str) -> dict[str, Any]:
    """Return the table of a benchmark, and for each policy beside the first a sentence and the kind that tells most.

    `policies` is empty where nothing was profiled.
    """
    of_policies: dict[str, dict[str, ProfiledKind]] = {}
    for row in results.step_profile:
        if row.benchmark == benchmark:
            of_policies.setdefault(row.policy, {})[row.kind] = row
    rows = [(kind, [kinds.get(kind) for kinds in of_policies.values()]) for kind in KINDS]
    first, *others = of_policies or [""]
    return {
        "policies": list(of_policies),
        "rows": [row for row in rows if any(cell and cell.milliseconds >= MIN_MILLISECONDS for cell in row[1])],
        "sentences": [_beside(first, of_policies[first], policy, of_policies[policy]) for policy in others],
        "tells_most": {policy: _tells_most(of_policies[first], of_policies[policy]) for policy in others},
        "batch_size": next((row.batch_size for kinds in of_policies.values() for row in kinds.values()), None),
    }


def _milliseconds(kinds: dict[str, ProfiledKind], *names: str) -> float:
    return sum(kinds[kind].milliseconds for kind in names or kinds if kind in kinds)


def _tells_most(before: dict[str, ProfiledKind], kinds: dict[str, ProfiledKind]) -> str:
    """Name the kind of operation that costs the most time beside the first policy, or saves it the most."""
    sign = 1 if _milliseconds(kinds) > _milliseconds(before) else -1
    return max(KINDS, key=lambda kind: sign * (_milliseconds(kinds, kind) - _milliseconds(before, kind)))


def _beside(first: str, before: dict[str, ProfiledKind], policy: str, kinds: dict[str, ProfiledKind]) -> str:
    total, total_before, most = _milliseconds(kinds), _milliseconds(before), _tells_most(before, kinds)
    kernel = f", most of it in oneDNN's {kinds[most].kernel}" if most in kinds and kinds[most].kernel else ""
    words = "most of the extra time is" if total > total_before else "most is saved by"
    return (
        f"Under {policy} the operations of a step take {total:,.0f} ms, in {first} {total_before:,.0f} ms; {words} "
        f"{most}: {_milliseconds(kinds, most):,.0f} ms beside {_milliseconds(before, most):,.0f} ms{kernel}."
    )
