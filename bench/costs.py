"""Measure the project's costs beside doing without it. Print a line a figure, and all as JSON in the last line.

Each figure is a ratio to a stated peer that was measured in the same invocation, in turns. With --light it is a small
selection, in under three minutes on two cores, compared with ratios that were kept.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import repository, runs
from bench.figures import SCHEMA_VERSION, line, ratios, worse
from pipeline.machine.hardware import cpu_features, cpu_model, gpus

PARTS = ("runs", "repository", "full_size")
SIZES = (10, 100, 1000)
BASELINE = Path(__file__).parent / "baseline.json"
# Training and test examples, where those of a data set would take longer than all the rest.
NUM_FAKE_EXAMPLES = {"small": (20_000, 500), "full_size": (80, 16)}


def main(arguments: argparse.Namespace) -> None:
    surroundings = machine()
    rows = []
    for row in _light() if arguments.light else _figures(arguments):
        print(line(row), flush=True)
        rows.append(row)
    kept = ratios(rows)
    if arguments.light:
        kept["worse"] = list(worse(rows, json.loads(BASELINE.read_text(encoding="utf-8"))))
        print(*kept["worse"] or ["no ratio is more than 25 % worse than the baseline's"], sep="\n")
    if arguments.store:
        arguments.store.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    result = {"schema_version": SCHEMA_VERSION, "machine": surroundings, "figures": rows}
    if arguments.light:
        result["worse"] = kept["worse"]
    print(json.dumps(result | {"not_measured": not_measured(arguments)}, ensure_ascii=False))


def _figures(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    repeats, parts = arguments.repeats, arguments.parts
    if "runs" in parts:
        with tempfile.TemporaryDirectory() as name:
            study = runs.quick_study()
            runs.prepare(Path(name), study)
            for benchmark in study.benchmarks:
                yield from runs.measure_benchmark(Path(name), study, benchmark, runs.VARIANTS, repeats)
    if "full_size" in parts:
        with tempfile.TemporaryDirectory() as name:
            study = runs.quick_study({runs.CIFAR: runs.FULL_SIZE})
            runs.prepare(Path(name), study, NUM_FAKE_EXAMPLES["full_size"])
            yield from runs.measure_benchmark(Path(name), study, runs.CIFAR, runs.VARIANTS, repeats)
    if "repository" in parts:
        for num_runs in arguments.num_runs:
            with tempfile.TemporaryDirectory() as name:
                yield from repository.measure_repository(Path(name), num_runs, repeats, num_changes=repeats)


def _light() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        study = runs.quick_study(runs.SMALL)
        runs.prepare(Path(name), study, NUM_FAKE_EXAMPLES["small"])
        for benchmark in study.benchmarks:
            for row in runs.measure_benchmark(Path(name), study, benchmark, ["float32"], 2, ["pipeline"]):
                if row["name"] != "throughput":  # of epochs as short as these, it is chance
                    yield {name: row[name] for name in row if name not in ("target", "met")}  # of the whole data sets
    with tempfile.TemporaryDirectory() as name:
        yield from repository.measure_repository(Path(name), 10, repeats=2, num_changes=1)


def machine() -> dict[str, Any]:
    """Describe the machine of the figures, and how busy it was before."""
    return {
        "cpu": cpu_model(),
        "cpu_features": cpu_features(),
        "num_cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": [gpu.name for gpu in gpus()],
        "operating_system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": dict(_versions("tensorflow", "tensorflow-cpu", "keras", "dvc")),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def _versions(*packages: str) -> Iterator[tuple[str, str]]:
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def not_measured(arguments: argparse.Namespace) -> list[dict[str, str]]:
    """List what a full run has and this one has not, and why."""
    parts: dict[str, bool] = {
        "overhead, throughput and memory on the whole data sets": "runs" in arguments.parts,
        f"throughput at {runs.FULL_SIZE['image_size']} × {runs.FULL_SIZE['image_size']}": "full_size"
        in arguments.parts,
    }
    for num_runs in SIZES:
        measured = "repository" in arguments.parts and num_runs in arguments.num_runs
        parts[f"no_op, one_change and comparing at {num_runs} runs"] = measured
    if arguments.light:
        parts = dict.fromkeys(parts, False) | {f"no_op, one_change and comparing at {SIZES[0]} runs": True}
    missing = {name: "takes long; not asked for" for name, measured in parts.items() if not measured}
    missing["a GPU's throughput and memory"] = "python -m bench.device measures them" if gpus() else "no GPU here"
    return [{"name": name, "reason": reason} for name, reason in missing.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__)
    parser.add_argument("--light", action="store_true", help="a small selection, compared with bench/baseline.json")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    parser.add_argument("--num-runs", nargs="+", type=int, choices=SIZES, default=SIZES, help="repository sizes")
    parser.add_argument("--repeats", type=int, default=4, help="turns; in every other one ours runs last")
    parser.add_argument("--store", type=Path, metavar="FILE", help="where to keep the ratios, without any seconds")
    main(parser.parse_args())
