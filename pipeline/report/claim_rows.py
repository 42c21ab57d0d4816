"""Claims with their verdicts as the report shows them, and how many there are of each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pipeline.claims.claim import Answer, EvidenceKind
from pipeline.claims.schema import Claim, Source
from pipeline.claims.verdicts import Judgement
from pipeline.report.results import Results

# From what a claim says to what nothing here decides: the order of the bar at the top.
VERDICTS = (
    "reproduced",
    "in direction only",
    "inconclusive",
    "not reproduced",
    "not this recipe",
    "not testable here",
)
EVIDENCE: tuple[EvidenceKind | None, ...] = (*get_args(EvidenceKind), None)
FOUND: tuple[Answer, ...] = get_args(Answer)
Row = tuple[Claim, Judgement]


def claims_by_source(results: Results) -> list[tuple[Source, list[Row], list[Row]]]:
    """Return each source with its claims and their verdicts: those with a short form, then the others, to be folded."""
    both = list(zip(results.claims.claims, results.verdicts, strict=False))  # findings come after the claims
    found = []
    for identifier, source in results.claims.sources.items():
        rows = [row for row in both if row[0].source == identifier]
        leading = [row for row in rows if row[0].short] or rows
        found.append((source, leading, [row for row in rows if row not in leading]))
    return found


def findings(results: Results) -> list[Row]:
    """Return the experiments of ours with what was found."""
    ours = [each for each in results.verdicts if each.is_finding]
    return list(zip(results.claims.findings, ours, strict=True))


def tally(results: Results) -> dict[str, dict[str, Any]]:
    """Count claims by verdict, and by what verdicts rest on; experiments of ours by answer; runs by outcome."""
    claims = [each for each in results.verdicts if not each.is_finding]
    evidence = {
        kind or "without evidence here": in_order(VERDICTS, (each.verdict for each in claims if each.evidence == kind))
        for kind in EVIDENCE
    }
    return {
        "verdicts": in_order(VERDICTS, (each.verdict for each in claims)),
        "evidence": {words: counts for words, counts in evidence.items() if counts},
        "findings": in_order(FOUND, (each.verdict for each in results.verdicts if each.is_finding)),
        "runs": dict(Counter(run["outcome"] for run in results.runs).most_common()),
    }


def in_order(names: Sequence[str], found: Iterable[str]) -> dict[str, int]:
    """Count those of `names` that were found, in their order."""
    counts = Counter(found)
    return {name: counts[name] for name in names if counts[name]}
