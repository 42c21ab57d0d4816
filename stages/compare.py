"""Compare the runs of the study, and write results/runs.csv and results/pairs.csv."""

import argparse
from pathlib import Path

from pipeline.comparison.comparing import compare_runs
from pipeline.sentences import Said, sentence
from stages import run


def main(_: argparse.Namespace) -> None:
    tables, files = compare_runs()
    Path("results").mkdir(exist_ok=True)
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8", newline="")
    faults = [row.timing_fault for row in tables.runs if row.timing_fault]
    if faults:
        numbers = {"num_left_out": len(faults), "num_runs": len(tables.runs), "why": sorted(set(faults))}
        print(sentence(Said("compare.times_left_out", numbers)))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.compare", description=__doc__))
