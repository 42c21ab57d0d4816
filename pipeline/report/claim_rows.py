"""Claims with their verdicts as the report shows them, and how many there are of each."""

from collections import Counter
from typing import Any, get_args

from pipeline.claims.claim import EvidenceKind
from pipeline.report.results import Results

# From what a claim says to what nothing here decides: the order of the bar at the top.
ORDER = (
    "reproduced",
    "in direction only",
    "inconclusive",
    "not reproduced",
    "not this recipe",
    "not testable here",
)


def claims_by_source(results: Results) -> list[dict[str, Any]]:
    """Return the claims of each source with their verdicts: `leading` are those with a short form, then the others."""
    found = []
    for identifier, source in results.claims.sources.items():
        both = zip(results.claims.claims, results.verdicts, strict=True)
        rows = [(claim, verdict) for claim, verdict in both if claim.source == identifier]
        leading = [row for row in rows if row[0].short and row[0].said_by == "source"]
        others = [row for row in rows if row not in leading]
        found.append({"source": source, "leading": leading, "others": others if leading else []})
        if not leading:
            found[-1]["leading"] = others
    return found


def verdict_counts(results: Results, said_by: str = "source") -> dict[str, int]:
    """Return the number of claims by verdict, of published ones or of those `said_by` us, without definitions."""
    counts = Counter(verdict["verdict"] for verdict in results.verdicts if verdict["said_by"] == said_by)
    return {verdict: counts[verdict] for verdict in ORDER if counts[verdict]}


def evidence_counts(results: Results) -> dict[str | None, int]:
    """Return the number of verdicts on published claims by the evidence that they rest on, and of those on none."""
    published = [v for v in results.verdicts if v["verdict"] != "definition" and v["said_by"] == "source"]
    counts = Counter(verdict["evidence"] for verdict in published)
    return {name: counts[name] for name in (*get_args(EvidenceKind), None) if counts[name]}


def outcome_counts(results: Results) -> dict[str, int]:
    """Return the number of runs by outcome."""
    return dict(Counter(run["outcome"] for run in results.runs).most_common())
