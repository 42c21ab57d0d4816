"""Print what the finished study found, in a few lines, and write it for programs: results/status.json."""

import argparse
import json
from pathlib import Path
from typing import Any, cast

from pipeline.files.characters import escape_deceptive
from stages import run

STATUS, REPORT = Path("results/status.json"), Path("results/report.html")


def main(_: argparse.Namespace) -> None:
    summarise()


def what_was_found() -> dict[str, Any]:
    """Return what `results/status.json` says, written anew where the report is newer."""
    if STATUS.exists() and STATUS.stat().st_mtime > REPORT.stat().st_mtime:
        return cast(dict[str, Any], json.loads(STATUS.read_bytes()))
    from pipeline.report.results import load_results  # which takes a second to import
    from pipeline.report.status import status, write_status

    found = status(load_results())
    write_status(found)
    return found


def summarise() -> None:
    found = what_was_found()
    for benchmark, advice in found["advice"].items():
        print(f"{benchmark}: {escape_deceptive(advice)}")
    for what, counts in (("published claims", found["verdicts"]), ("experiments of ours", found["findings"])):
        if counts:
            print(f"{sum(counts.values())} {what}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    print("claims: " + ", ".join(f"{sum(counts.values())} {words}" for words, counts in found["evidence"].items()))
    print("runs: " + ", ".join(f"{count} {outcome}" for outcome, count in found["runs"].items()))
    print(f"report: {Path(found['report']).resolve()}")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.summary", description=__doc__))
