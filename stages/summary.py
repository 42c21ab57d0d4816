"""Print a summary of the finished study in a few lines, and write results/status.json for programs."""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

from pipeline.files.places import REPORT, STATUS
from pipeline.files.terminal import aligned
from pipeline.words.sentences import Said, sentence


def what_was_found() -> dict[str, Any]:
    """Return the content of `results/status.json`. If the file is missing, or about another report, write it first."""
    if STATUS.exists():
        found = cast(dict[str, Any], json.loads(STATUS.read_bytes()))
        if found.get("report_sha256") == hashlib.sha256(REPORT.read_bytes()).hexdigest():
            return found
    from pipeline.report.results import load_results  # takes a second to import
    from pipeline.report.status import status, write_status

    found = status(load_results())
    write_status(found)
    return found


def summarise() -> None:
    """Print each benchmark's advice and part of the table, counts of verdicts and outcomes, and the report's path."""
    found = what_was_found()
    table = found["table"]
    header, *lines = aligned([table["columns"], *(row for rows in table["rows"].values() for row in rows)])
    for benchmark, advice in found["advice"].items():
        say("summary.advice", title=found["titles"][benchmark], advice=advice)
        if rows := table["rows"][benchmark]:
            print(header)
        for _ in rows:
            print(lines.pop(0))
    for text in table["failed"]:
        print(text)
    is_yours = found["study"] == "yours"
    if (counts := found["verdicts"]) and not is_yours:  # the claims are about other models
        say("summary.claims", total=sum(counts.values()), counts=counts)
    if found["runs"].keys() - {"completed"}:
        say("summary.runs", counts=found["runs"])
    say("summary.report", is_yours=is_yours, path=str(Path(found["report"]).resolve()))


def say(code: str, **numbers: Any) -> None:
    print(sentence(Said(code, numbers)), flush=True)
