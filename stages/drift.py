"""Enter the finished campaign in the ledger; the exit status tells whether anything changed since the baseline.

0 nothing changed · 1 a crash · 2 a fault of the input · 10 a warning: repeat on fresh seeds · 20 drift, seen twice ·
30 too little evidence · 40 no measurement of speed that counts. results/status.json always gives the same status, with
the reasons. Compare the runs first.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.campaign.alarm import detect_drift
from pipeline.campaign.ledger import append, entry, read_baseline, read_ledger
from pipeline.comparison.finished_runs import read_record, read_speeds
from pipeline.errors import InputError
from pipeline.machine.left_out import study_as_made
from pipeline.report.results import load_results
from pipeline.report.status import status, write_status
from pipeline.sentences import Said, sentence
from pipeline.study.schema import Study
from stages import run

LEDGER = Path("../ledger")  # beside the campaign's folder, the working directory


def main(arguments: argparse.Namespace) -> None:
    with failures_in_status():
        exit_code = judge_drift(study_as_made(), arguments.ledger)
    sys.exit(exit_code)


@contextlib.contextmanager
def failures_in_status() -> Iterator[None]:
    """Write an exception from the block into results/status.json, then raise it again."""
    try:
        yield
    except Exception as error:
        exit_code, said = (2, "") if isinstance(error, InputError) else (1, f"{type(error).__name__}: ")
        write_status({"exit_code": exit_code, "reasons": [f"{said}{error}"]})
        raise


def judge_drift(study: Study, ledger: Path) -> int:
    """Enter the campaign, say what has changed, and return the exit status."""
    records = {key: read_record(key) for key in study.runs()}
    new = entry(study, records, {name: read_speeds(study, name) for name in study.benchmarks})
    earlier = [old for old in read_ledger(ledger) if old.campaign != new.campaign and old.started_at <= new.started_at]
    result = detect_drift(new, earlier, read_baseline(new.series, ledger))
    path = append(new, ledger)
    findings = [sentence(finding.said) for finding in result.findings]
    reasons = list(map(sentence, result.reasons))
    drift = {"series": new.series, "ledger": str(path), "findings": findings, "reasons": reasons}
    write_status(status(load_results(), result.exit_code) | drift)
    for line in findings + reasons or [sentence(Said("drift.none", {"series": new.series}))]:
        print(line)
    return result.exit_code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.drift", description=__doc__)
    parser.add_argument("--ledger", type=Path, default=LEDGER, help=f"folder of the ledger (default {LEDGER})")
    run(main, parser)
