"""Arrange what a training step's time goes to: a row a kind of operation, a column a policy."""

from typing import Any

from pipeline.records.step_profile import KINDS, ProfiledKind
from pipeline.report.results import Results

MIN_MILLISECONDS = 0.05  # of a kind under any policy: others round to nothing


def step_profile(results: Results, benchmark: str) -> dict[str, Any]:
    """Return the table of a benchmark with a sentence for each policy beside the first, or why there is none."""
    of_policies: dict[str, dict[str, ProfiledKind]] = {}
    for row in results.step_profile:
        if row.benchmark == benchmark:
            of_policies.setdefault(row.policy, {})[row.kind] = row
    rows = [(kind, [kinds.get(kind) for kinds in of_policies.values()]) for kind in KINDS]
    first = next(iter(of_policies), "")
    return {
        "policies": list(of_policies),
        "rows": [row for row in rows if any(cell and cell.milliseconds >= MIN_MILLISECONDS for cell in row[1])],
        "sentences": [
            _beside(first, of_policies[first], policy, kinds)
            for policy, kinds in of_policies.items()
            if policy != first
        ],
        "batch_size": next((row.batch_size for kinds in of_policies.values() for row in kinds.values()), None),
        "why_not": "" if of_policies else _why_not(results),
    }


def _beside(first: str, before: dict[str, ProfiledKind], policy: str, kinds: dict[str, ProfiledKind]) -> str:
    """Name the kind of operation that costs `policy` the most time beside the first policy, or saves it the most."""

    def milliseconds(of: dict[str, ProfiledKind], *names: str) -> float:
        return sum(of[kind].milliseconds for kind in names or of if kind in of)

    total, total_before = milliseconds(kinds), milliseconds(before)
    extra = {kind: milliseconds(kinds, kind) - milliseconds(before, kind) for kind in KINDS}
    is_slower = total > total_before
    most = max(extra, key=lambda kind: extra[kind] if is_slower else -extra[kind])
    kernel = f", most of it in oneDNN's {kinds[most].kernel}" if most in kinds and kinds[most].kernel else ""
    words = "most of the extra time is" if is_slower else "most is saved by"
    return (
        f"Under {policy} the operations of a step take {total:,.0f} ms, in {first} {total_before:,.0f} ms; {words} "
        f"{most}: {milliseconds(kinds, most):,.0f} ms beside {milliseconds(before, most):,.0f} ms{kernel}."
    )


def _why_not(results: Results) -> str:
    study = results.study
    if study.engine != "tensorflow":
        return "not profiled on this engine: only TensorFlow tells it by operation"
    if study.numerics == "facts":
        return "not profiled in this short study"
    return "not profiled here: only a CPU's kernels tell their names"
