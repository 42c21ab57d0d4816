"""Compare, judge and report the results of a campaign, and check for drift, after its other elements have ended.

A finished campaign is entered in the ledger. The exit status tells whether anything changed since the baseline:

0 nothing changed · 1 a crash · 2 a fault in the input · 10 a warning: repeat with fresh seeds · 20 drift, seen twice ·
30 too little evidence · 40 no usable speed measurement. results/status.json always gives the same status, with
the reasons. On Slurm, a warning submits the campaign once more, with fresh seeds.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.campaign.alarm import TOO_LITTLE, WARNING, detect_drift
from pipeline.campaign.jobs import CLUSTER, elements, in_words, missing_elements
from pipeline.campaign.ledger import append, entry, read_baseline, read_ledger
from pipeline.campaign.preparing import LEDGER
from pipeline.comparison.finished_runs import read_record, read_speeds
from pipeline.errors import InputError
from pipeline.files.places import STATUS
from pipeline.machine.left_out import study_as_made
from pipeline.report.results import load_results
from pipeline.report.status import status, write_status
from pipeline.study.schema import Study, load_study
from pipeline.words.sentences import Said, sentence
from stages import compare, judge, report, run

REPEAT_SUFFIX = "-again"
POLL_SECONDS = 120


def main(arguments: argparse.Namespace) -> None:
    STATUS.unlink(missing_ok=True)  # so that nobody mistakes an old status for this one
    try:
        study = load_study()
        # Don't wait for a run that was stopped once at its time limit. But count this run as missing, because another
        # command must try it again before the campaign is complete.
        missing = wait_for_elements(study, arguments.wait) or missing_elements(study)
        exit_code = _without(missing, study) if missing else _with_all(study_as_made())
    except Exception as error:
        exit_code, said = (2, "") if isinstance(error, InputError) else (1, f"{type(error).__name__}: ")
        write_status({"exit_code": exit_code, "reasons": [f"{said}{error}"]})
        raise
    if exit_code == WARNING and CLUSTER.exists() and not study.campaign.endswith(REPEAT_SUFFIX):
        repeat = ["--campaign", study.campaign + REPEAT_SUFFIX, "--campaigns", "..", "--cluster", str(CLUSTER)]
        subprocess.run([sys.executable, "-m", "stages.campaign", *repeat], check=False)
    sys.exit(exit_code)


def _without(missing: Sequence[int], study: Study) -> int:
    """Report on the finished elements, name the missing ones, and return `TOO_LITTLE`. Don't change the ledger."""
    every = elements(study)
    said = ", ".join(in_words(every[number]) for number in missing)
    again = "Start these elements again"
    if CLUSTER.exists():  # the elements are jobs of Slurm
        again = f"Submit them: make campaign CAMPAIGN={study.campaign}"
    reason = f"{len(missing)} of {len(every) - 1} elements did not finish: {said}. {again}"
    try:
        _report()
    except InputError as error:  # name the missing elements even if the finished ones can't be compared
        print(error)
    write_status({"exit_code": TOO_LITTLE, "reasons": [reason]})
    print(reason)
    return TOO_LITTLE


def _with_all(study: Study) -> int:
    """Report, enter the campaign in the ledger, print the changes since the baseline, and return the exit status."""
    _report()
    ledger = Path("..", LEDGER)  # next to the campaign's folder, which is the working directory
    records = {key: read_record(key) for key in study.runs()}
    new = entry(study, records, {name: read_speeds(study, name) for name in study.timed_benchmarks})
    earlier = [old for old in read_ledger(ledger) if old.campaign != new.campaign and old.started_at <= new.started_at]
    result = detect_drift(new, earlier, read_baseline(new.series, ledger))
    path = append(new, ledger)
    findings, reasons = list(map(sentence, result.findings)), list(map(sentence, result.reasons))
    drift = {"series": new.series, "ledger": str(path), "findings": findings, "reasons": reasons}
    write_status(status(load_results(), result.exit_code) | drift)
    for line in findings + reasons or [sentence(Said("drift.none", {"series": new.series}))]:
        print(line)
    return result.exit_code


def _report() -> None:
    compare.main(argparse.Namespace())
    judge.main(argparse.Namespace())
    report.main(argparse.Namespace(archive=None))


def wait_for_elements(study: Study, wait_seconds: float) -> list[int]:
    """Wait until no element is missing, but at most `wait_seconds`. Return the numbers of the missing elements.

    A run or measurement that was stopped at its time limit does not count as missing.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        missing = missing_elements(study, min_stops=1)
        left_seconds = deadline - time.monotonic()
        if not missing or left_seconds <= 0:
            return missing
        print(f"{len(missing)} elements are missing; {left_seconds / 60:.0f} minutes left", flush=True)
        time.sleep(min(POLL_SECONDS, left_seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.collect", description=__doc__)
    parser.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS", help="wait at most this long for missing elements"
    )
    run(main, parser)
