"""Measure a repository of many finished runs: `dvc repro` with nothing or one thing to do, and comparing.

The runs are made up. `dvc repro` with nothing to do is measured against `dvc status`, which looks at the same files
and says so. The one change is a margin of accuracy: every run stays; statistics, verdicts and report are made again.
Its peer is the three commands of those stages themselves. They, in turn, are measured against a script that reads the
same files and prints a mean a variant.
"""

import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

from bench.campaigns import write_project
from bench.figures import figure, within
from bench.processes import in_turn, interleaved, measure
from pipeline.claims.result_files import Ceilings, Numerics
from pipeline.numerics.facts import fact_names
from pipeline.study.schema import load_study

TARGET_SECONDS = {("no_op", 10): 1.0, ("no_op", 1000): 8.0, ("one_change", 1000): 30.0, ("comparing", 10): 6.0}
STAGES = ("compare", "judge", "report")
PACKAGES = ("pipeline", "stages")
READ = """
import csv, json
from collections import defaultdict
from pathlib import Path
import numpy as np
accuracies, seconds = defaultdict(list), defaultdict(list)
for path in sorted(Path("runs").glob("*/*/*/record.json")):
    record = json.loads(path.read_text())
    with (path.parent / "epochs.csv").open() as file:
        epochs = list(csv.DictReader(file))
    with np.load(path.parent / "predictions.npz") as arrays:
        right = arrays["labels"] == arrays["predicted"]
    name = record["benchmark"], record["variant"]
    accuracies[name].append(right.mean())
    seconds[name].append(np.median([float(epoch["train_seconds"]) for epoch in epochs[1:]]))
for name in accuracies:
    print(*name, np.mean(accuracies[name]), np.mean(seconds[name]))
"""


def prepare(folder: Path, num_runs: int) -> float:
    """Make a repository in `folder` in which every stage is finished and nothing was trained.

    Returns the seconds of comparing, judging and reporting in it.
    """
    write_project(folder, num_runs)
    benchmarks = load_study(folder / "params.yaml").benchmarks
    facts: dict[str, bool | int | float | str] = dict.fromkeys(fact_names(benchmarks), 1)
    numerics = Numerics(schema_version=2, facts=facts, samples={}, models={}, gradients={}, trials=[])
    ceilings = Ceilings(schema_version=1, largest_batch={})
    results = folder / "results"
    (results / "numerics.json").write_text(numerics.model_dump_json(), encoding="utf-8")
    (results / "ceilings.json").write_text(ceilings.model_dump_json(), encoding="utf-8")
    (results / "layers.csv").write_text("layer\n", encoding="utf-8")
    measure(sys.executable, "-m", "compileall", "-q", *PACKAGES, cwd=folder)  # else the first to run does that
    seconds = _conclude(folder)
    measure("dvc", "commit", "--quiet", "--force", cwd=folder, source=folder)
    return seconds


def measure_repository(folder: Path, num_runs: int, repeats: int, num_changes: int) -> list[dict[str, Any]]:
    """Measure a new repository in `folder`: `repeats` turns with no change, `num_changes` with one."""
    bare = [prepare(folder, num_runs)]  # the first turn's
    repro, status = ("dvc", "repro", "--quiet"), ("dvc", "status", "--quiet")
    no_op = [
        [cost.seconds for cost in costs] for costs in interleaved(repeats, repro, status, cwd=folder, source=folder)
    ]
    whole: list[float] = []
    reading: list[float] = []

    def change() -> None:
        _change(folder, len(whole))
        whole.append(measure(*repro, cwd=folder, source=folder).seconds)

    def read() -> None:
        # Three times, because it takes a tenth of a second.
        readings, *_ = interleaved(3, (sys.executable, "-c", READ), cwd=folder, source=folder)
        reading.append(median(cost.seconds for cost in readings))

    for number in range(num_changes):
        sides = [change, read] if number == 0 else [lambda: bare.append(_conclude(folder)), change, read]
        for side in in_turn(number, sides):
            side()
    rows = [
        figure("no_op", "seconds", *no_op, of="dvc status", num_runs=num_runs),
        figure("one_change", "seconds", whole, bare, of="compare, judge and report without DVC", num_runs=num_runs),
        figure("comparing", "seconds", bare, reading, of="a script that reads the same files", num_runs=num_runs),
    ]
    targets = [TARGET_SECONDS.get((row["name"], num_runs)) for row in rows]
    return [within(row, target) if target else row for row, target in zip(rows, targets, strict=True)]


def _conclude(folder: Path) -> float:
    """Return the seconds of comparing, judging and reporting, in a process each."""
    return sum(measure(sys.executable, "-m", f"stages.{stage}", cwd=folder, source=folder).seconds for stage in STAGES)


def _change(folder: Path, number: int) -> None:
    path = folder / "params.yaml"
    text, num_changed = re.subn(r"(?<=benchmark_0: )0\.\d+", f"0.{3 + number}", path.read_text(encoding="utf-8"))
    if num_changed != 1:
        raise RuntimeError(f"{path} does not have one margin of benchmark_0 but {num_changed}")
    path.write_text(text, encoding="utf-8")
