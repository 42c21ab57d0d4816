"""Measure the cost of a campaign's head: find missing runs, and collect, once every run is in the shared cache.

The runs are made up. Print one JSON line a size.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from bench import processes
from bench.scaling import REPOSITORY, write_study

PLAN = """
from pathlib import Path
from pipeline.campaign.cluster import missing_stages
from pipeline.study.schema import load_study
stages = [key.stage for key in load_study().runs()]
print("missing:", len(missing_stages(stages, Path(), remote=False, restore={restore})))
"""


def write_project(folder: Path, num_runs: int) -> None:
    """Make a repository in `folder` whose cache holds `num_runs` runs that nobody trained."""
    for name in processes.measure("git", "ls-files", cwd=REPOSITORY).printed.splitlines():
        if name != "dvc.lock" and not name.startswith("docs/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    study = write_study(folder, num_runs)
    for path in (
        *(Path("inputs", "benchmarks", f"{name}.json") for name in study.benchmarks),
        *(Path("data", name, "dataset.json") for name in study.datasets),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("{}\n")
    # Made in earnest, because a change of the study makes it again.
    processes.measure(sys.executable, "-m", "stages.dependencies", cwd=folder, source=folder)
    processes.measure("git", "init", "--quiet", cwd=folder)
    stages = ("download", "inputs", "dependencies", "train")
    processes.measure("dvc", "commit", "--quiet", "--force", *stages, cwd=folder, source=folder)


def measure(folder: Path, num_runs: int) -> dict[str, float | int]:
    """Return the seconds of new processes: find that no run is missing, fetch all, and see that nothing changed."""
    write_project(folder, num_runs)
    for name in ("runs", "data", "inputs"):
        shutil.rmtree(folder / name)
    (folder / "dvc.lock").unlink()
    processes.measure("dvc", "repro", "--quiet", "inputs", "dependencies", cwd=folder, source=folder)
    planning, collecting, nothing = (
        processes.measure(*command, cwd=folder, source=folder)
        for command in (
            (sys.executable, "-c", PLAN.format(restore=False)),
            (sys.executable, "-c", PLAN.format(restore=True)),
            ("dvc", "status", "train"),
        )
    )
    found = len(list((folder / "runs").glob("*/*/*/record.json")))
    if "missing: 0" not in planning.printed or found != num_runs or "up to date" not in nothing.printed:
        raise RuntimeError(f"{planning.printed}{found} of {num_runs} collected; {nothing.printed}")
    return {
        "num_runs": num_runs,
        "planning_seconds": round(planning.seconds, 2),
        "collecting_seconds": round(collecting.seconds, 2),
        "checking_seconds": round(nothing.seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.campaigns", description=__doc__)
    parser.add_argument("--num-runs", type=int, nargs="+", default=[10, 100, 1000], help="multiples of 10, then of 100")
    for num_runs in parser.parse_args().num_runs:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"bench": "campaigns"} | measure(Path(folder), num_runs)), flush=True)


if __name__ == "__main__":
    main()
