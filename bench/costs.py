"""Measure what a run costs beside a plain script's. Print a line a figure, and all as JSON in the last line.

Each figure is a ratio to a stated peer that was measured in the same invocation, in turns. It takes some minutes on two
cores.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from bench import runs
from bench.figures import line
from pipeline.machine.hardware import cpu_model


def main() -> None:
    machine = {"cpu": cpu_model(), "num_cpus": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for row in runs.measure_runs(Path(name)):
            print(line(row), flush=True)
            rows.append(row)
    print(json.dumps({"machine": machine, "figures": rows}, ensure_ascii=False))


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__).parse_args()
    main()
