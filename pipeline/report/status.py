"""Summarize a study's results for other programs, and write the summary to `results/status.json`."""

import hashlib
import json
from collections import Counter
from typing import Any

from pipeline.comparison.finished_runs import device_in_words
from pipeline.files.places import REPORT, STATUS
from pipeline.report.first_screen import SAME_BATCH, columns, variant_rows
from pipeline.report.names import benchmark_names
from pipeline.report.recommendation import recommend
from pipeline.report.results import Results
from pipeline.words.sentences import Said, sentence, sentences

# Verdicts in the order of the bar at the top of the report, from confirmed to not testable.
ORDER = (
    "reproduced",
    "in direction only",
    "inconclusive",
    "not reproduced",
    "not this recipe",
    "not testable here",
)
LABEL = {"num_seeds": 0, "has_default": False}  # these values leave the details out of the columns' names


def tally(results: Results) -> dict[str, dict[str, Any]]:
    """Count the published claims by verdict, and the runs by outcome."""
    counts: Counter[str] = Counter(each.verdict for each in results.verdicts if not each.is_finding)
    return {
        "verdicts": {verdict: counts[verdict] for verdict in ORDER if counts[verdict]},
        "runs": dict(Counter(run.outcome for run in results.tables.runs).most_common()),
    }


def status(results: Results, exit_code: int = 0) -> dict[str, Any]:
    """Return the content of `results/status.json`, which sums up a study for other programs.

    Args:
        exit_code: the exit status of the command that writes the file.
    """
    study, tables = results.study, results.tables
    return {
        "exit_code": exit_code,
        "study": study.name,
        "titles": benchmark_names(study),
        "advice": {benchmark: sentences(recommend(study, tables, benchmark)) for benchmark in study.answered_first},
        "table": table(results),
        **tally(results),
        "device": device_in_words(results.environments[0]),
        "finished_at": results.ended_at,
        "report": str(REPORT),
        "report_sha256": digest_of_report(),
    }


def digest_of_report() -> str | None:
    """Return the SHA-256 of the report, or None if there is no report."""
    return hashlib.sha256(REPORT.read_bytes()).hexdigest() if REPORT.exists() else None


def table(results: Results) -> dict[str, Any]:
    """Return a table of the variants at the baseline's batch size, for the terminal: columns, rows, and failed runs.

    Rows are lists of texts, by benchmark. Speed is relative to TF32 if any such speed is known, and otherwise to the
    baseline.
    """
    of_batch = {
        name: [row for row in variant_rows(results.study, results.tables, name) if row.group == SAME_BATCH]
        for name in results.study.answered_first
    }
    known = columns([row for of in of_batch.values() for row in of if row.is_known])
    speed = "beside_default" if "beside_default" in known else "speed"
    shown = [name for name in ("accuracy", "step", speed, "memory") if name in known]
    return {
        "columns": ["variant", *(sentence(Said(f"column.{name}", LABEL)) for name in shown)],
        "rows": {
            name: [[row.name, *(str(row.cell(each)) for each in shown)] for row in of if row.is_known]
            for name, of in of_batch.items()
        },
        "failed": [
            f"{name}, {row.name}: {sentence(said)}"
            for name, of in of_batch.items()
            for row in of
            for said in row.notes
            if said.code == "note.failed"
        ],
    }


def write_status(values: dict[str, Any]) -> None:
    STATUS.parent.mkdir(exist_ok=True)
    STATUS.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
