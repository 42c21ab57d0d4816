"""Enter a sitting's speeds in sittings.csv, and say how far each pair's speedup varies from sitting to sitting.

Measure at least an hour after the last one: dvc repro --force --single-item speed@BENCHMARK, for each benchmark.
"""

import argparse
import math
from datetime import UTC, datetime
from pathlib import Path

from pipeline.comparison.comparable import device
from pipeline.comparison.finished_runs import SPEED, read_circumstances, read_speeds
from pipeline.comparison.sittings import (
    check_apart,
    contrasts,
    read_sittings,
    rows_of,
    spread_between,
    timed_as,
    timed_pairs,
    write_sittings,
)
from pipeline.study.schema import load_study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    study, folder, rows = load_study(), arguments.folder, read_sittings()
    circumstances = {name: read_circumstances(name, folder) for name in study.benchmarks}
    ended = datetime.fromtimestamp(max(path.stat().st_mtime for path in [folder, *folder.glob("*.csv")]), UTC)
    measured_at = (arguments.measured_at or ended).astimezone(UTC).replace(second=0, microsecond=0)
    new = [
        row
        for name in study.benchmarks
        for row in rows_of(study, name, read_speeds(study, name, folder), circumstances[name], measured_at)
    ]
    for row in new[:1]:
        check_apart(rows, row)
    rows += new
    write_sittings(rows)
    found = contrasts(rows)
    for benchmark in study.benchmarks:
        where = device(circumstances[benchmark].environment)
        for pair in timed_pairs(study, benchmark):
            sittings = found[where, timed_as(study, benchmark, *pair)]
            between = spread_between(rows, study, benchmark, *pair, where)
            ratios = ", ".join(f"{math.exp(log_ratio):.3f}×" for log_ratio in sittings.log_ratios)
            print(
                f"{benchmark}: {pair[1]} beside {pair[0]}: {ratios}; from sitting to sitting "
                f"{between.spread:.4f} on the log scale, with {between.degrees_of_freedom} degrees of freedom"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.sittings", description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=SPEED, help="where the blocks lie (default: %(default)s)"
    )
    parser.add_argument("--measured-at", type=datetime.fromisoformat, help="default: when the blocks were written")
    run(main, parser)
