"""Count what a study found, and tell it to programs: `results/status.json`."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from pipeline.claims.claim import Answer, EvidenceKind
from pipeline.comparison.comparable import describe_device
from pipeline.report.answers import advice, caution
from pipeline.report.results import Results, ended_at

STATUS = Path("results/status.json")
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


def status(results: Results, exit_code: int = 0) -> dict[str, Any]:
    """Return advice by benchmark, counts, device, when the last run ended, and where the report is."""
    return {
        "exit_code": exit_code,
        "advice": {
            benchmark: f"{advice(results, benchmark)} {caution(results, benchmark)}".rstrip()
            for benchmark in results.study.benchmarks
        },
        **tally(results),
        "device": describe_device(results.environments[0]),
        "finished_at": ended_at(results),
        "report": "results/report.html",
    }


def status_text(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def write_status(values: dict[str, Any]) -> None:
    STATUS.parent.mkdir(exist_ok=True)
    STATUS.write_text(status_text(values), encoding="utf-8")
