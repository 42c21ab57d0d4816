"""Claims with their verdicts as the report shows them, and how many there are of each."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

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
# A number of claims tells what was trained from what a compiler says, and from what arithmetic alone decides.
EVIDENCE: dict[EvidenceKind | None, str] = {
    "measured": "trained and compared, or timed",
    "compiled": "compiled",
    "counted": "arithmetic",
    None: "without evidence here",
}
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
    return list(zip(results.claims.findings, _judged(results, are_findings=True), strict=True))


def verdict_counts(results: Results) -> dict[str, int]:
    """Return the number of published claims by verdict."""
    return _counts(VERDICTS, [each.verdict for each in _judged(results, are_findings=False)])


def finding_counts(results: Results) -> dict[str, int]:
    """Return the number of experiments of ours by what was found."""
    return _counts(FOUND, [each.verdict for each in _judged(results, are_findings=True)])


def evidence_counts(results: Results) -> dict[str, dict[str, int]]:
    """Return the number of published claims by what their verdicts rest on, in words, each by verdict."""
    claims = _judged(results, are_findings=False)
    found = {
        words: _counts(VERDICTS, [each.verdict for each in claims if each.evidence == kind])
        for kind, words in EVIDENCE.items()
    }
    return {words: counts for words, counts in found.items() if counts}


def outcome_counts(results: Results) -> dict[str, int]:
    """Return the number of runs by outcome."""
    return dict(Counter(run["outcome"] for run in results.runs).most_common())


def _judged(results: Results, are_findings: bool) -> list[Judgement]:
    return [each for each in results.verdicts if each.is_finding == are_findings]


def _counts(order: Sequence[str], found: Sequence[str]) -> dict[str, int]:
    counts = Counter(found)
    return {name: counts[name] for name in order if counts[name]}
