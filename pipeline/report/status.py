"""The findings of a study, for programs: `results/status.json`."""

import json
from pathlib import Path
from typing import Any

from pipeline.comparison.comparable import device
from pipeline.report.answers import advice
from pipeline.report.claim_rows import tally
from pipeline.report.results import Results, ended_at

STATUS = Path("results/status.json")


def status(results: Results, exit_code: int = 0) -> dict[str, Any]:
    """Return advice by benchmark, counts, device, when the last run ended, and where the report is."""
    return {
        "exit_code": exit_code,
        "advice": {benchmark: advice(results, benchmark) for benchmark in results.study.benchmarks},
        **tally(results),
        "device": device(results.environments[0]),
        "finished_at": ended_at(results),
        "report": "results/report.html",
    }


def status_text(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def write_status(values: dict[str, Any]) -> None:
    STATUS.write_text(status_text(values), encoding="utf-8")
