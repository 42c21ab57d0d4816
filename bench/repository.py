"""Measure a repository of many finished runs: `dvc repro` with nothing to do, and with one change.

The runs are those of a published study. `dvc repro` with nothing to do is measured against `dvc status`, which looks at
the same files and says so. The one change is a margin of accuracy: every run stays; statistics, verdicts and report are
made again. Its peer is the three commands of those stages themselves.
"""

import json
import re
import shutil
import sys
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

from bench.figures import figure
from bench.processes import REPOSITORY, in_turn, interleaved, measure
from pipeline.study.schema import load_study

PUBLISHED = REPOSITORY / "docs/reports/quick-2-cores/crate.zip"
STAGES = ("compare", "judge", "report")
NUM_TURNS = 2


def prepare(folder: Path) -> int:
    """Make a repository in `folder` in which every stage is finished and nothing was trained; return its runs."""
    for name in measure("git", "ls-files", cwd=REPOSITORY).printed.splitlines():
        if name not in ("dvc.lock", "params.yaml") and not name.startswith("docs/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    with zipfile.ZipFile(PUBLISHED) as archive:
        published = ("params.yaml", "runs/", "results/")
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(published)])
    study = load_study(folder / "params.yaml")
    digests = dict.fromkeys(("train_images", "train_labels", "test_images", "test_labels"), "0" * 64)
    for name in study.datasets:
        path = folder / "data" / name / "dataset.json"
        path.parent.mkdir(parents=True)
        description = {"name": name, "image_shape": [1, 1, 1], "classes": ["one"], "sha256": digests}
        path.write_text(json.dumps(description), encoding="utf-8")
    for benchmark, variant, seed in product(study.benchmarks, study.variants, study.seeds):  # some are left out
        (folder / "runs" / benchmark / variant / f"seed-{seed}").mkdir(parents=True, exist_ok=True)
    # Made in earnest, because a change of the study makes it again.
    for name in study.benchmarks:
        measure(sys.executable, "-m", "stages.inputs", "--benchmark", name, cwd=folder, source=folder)
    measure(sys.executable, "-m", "compileall", "-q", "pipeline", "stages", cwd=folder)  # else the first to run does
    measure("git", "init", "--quiet", cwd=folder)
    _conclude(folder)
    measure("dvc", "commit", "--quiet", "--force", cwd=folder, source=folder)
    return len(study.runs())


def measure_repository(folder: Path) -> list[dict[str, Any]]:
    """Measure a new repository in `folder`."""
    num_runs = prepare(folder)
    repro, status = ("dvc", "repro", "--quiet"), ("dvc", "status", "--quiet")
    no_op = interleaved(NUM_TURNS, repro, status, cwd=folder, source=folder)
    whole: list[float] = []
    bare: list[float] = []

    def change() -> None:
        _change(folder, len(whole))
        whole.append(measure(*repro, cwd=folder, source=folder).seconds)

    for turn in range(NUM_TURNS):
        for side in in_turn(turn, [lambda: bare.append(_conclude(folder)), change]):
            side()
    seconds = [[cost.seconds for cost in costs] for costs in no_op]
    return [
        figure("no_op", "seconds", *seconds, of="dvc status", num_runs=num_runs),
        figure("one_change", "seconds", whole, bare, of="compare, judge and report without DVC", num_runs=num_runs),
    ]


def _conclude(folder: Path) -> float:
    """Return the seconds of comparing, judging and reporting, in a process each."""
    return sum(measure(sys.executable, "-m", f"stages.{stage}", cwd=folder, source=folder).seconds for stage in STAGES)


def _change(folder: Path, number: int) -> None:
    path = folder / "params.yaml"
    text, num_changed = re.subn(
        r"(margin_pp:\s+\w+:) [\d.]+", rf"\1 0.{3 + number}", path.read_text(encoding="utf-8"), count=1
    )
    if num_changed != 1:
        raise RuntimeError(f"{path} has no margin")
    path.write_text(text, encoding="utf-8")
