"""Compare the runs of the study, and write results/runs.csv, pairs.csv, epochs.csv and metrics for DVC."""

import argparse

from pipeline.comparison.comparing import compare_runs
from pipeline.files.places import PARAMS, SPEED
from pipeline.machine.left_out import study_as_made
from pipeline.store.plan import made_otherwise
from pipeline.study.schema import RunKey
from pipeline.words.sentences import Said, sentence
from stages import run, unedited


def main(_: argparse.Namespace) -> None:
    with unedited(PARAMS):
        study = study_as_made()
        runs, speeds = made_otherwise(study)
        tables = compare_runs(without=runs, without_speed=speeds)
    missing = [key.directory for key in study.runs() if not key.directory.exists()]
    left_out = [*(key.directory for key in runs), *(SPEED / name for name in speeds)]
    stopped = [
        RunKey(row.benchmark, row.variant, row.seed).directory for row in tables.runs if row.outcome == "too_slow"
    ]
    for code, places in (
        ("compare.left_out", left_out),
        ("compare.missing", missing),
        ("compare.stopped", stopped),
    ):
        if places:
            print(sentence(Said(code, {"names": list(map(str, places))})))
    faults = [row.timing_fault for row in tables.runs if row.timing_fault and row.outcome == "completed"]
    if faults:
        numbers = {"num_left_out": len(faults), "num_runs": len(tables.runs), "why": sorted(set(faults))}
        print(sentence(Said("compare.times_left_out", numbers)))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.compare", description=__doc__))
