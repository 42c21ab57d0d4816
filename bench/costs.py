"""Measure the project's costs beside doing without it. Print a line a figure, and all as JSON in the last line.

Each figure is a ratio to a stated peer that was measured in the same invocation, in turns. It is compared with the one
kept in bench/baseline.json. All of it takes some minutes on two cores.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from bench import repository, runs
from bench.figures import line, ratios, worse
from pipeline.machine.hardware import cpu_model

BASELINE = Path(__file__).parent / "baseline.json"


def main(arguments: argparse.Namespace) -> None:
    machine = {"cpu": cpu_model(), "num_cpus": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()}
    rows = []
    for measured in (runs.measure_runs, repository.measure_repository):
        with tempfile.TemporaryDirectory() as name:
            for row in measured(Path(name)):
                print(line(row), flush=True)
                rows.append(row)
    found = list(worse(rows, json.loads(BASELINE.read_text(encoding="utf-8"))))
    print(*found or ["no ratio is more than 25 % worse than the baseline's"], sep="\n")
    if arguments.store:
        kept = ratios(rows) | {"worse": found}
        arguments.store.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({"machine": machine, "figures": rows, "worse": found}, ensure_ascii=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__)
    parser.add_argument("--store", type=Path, metavar="FILE", help="where to keep the ratios, without any seconds")
    main(parser.parse_args())
