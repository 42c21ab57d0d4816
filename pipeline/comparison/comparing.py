"""The runs under a folder to the files that the compare stage writes."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.comparison.comparable import surroundings
from pipeline.comparison.finished_runs import (
    Run,
    read_circumstances,
    read_epochs,
    read_predictions,
    read_record,
    read_speeds,
    remedy_of_speed,
)
from pipeline.comparison.paired_runs import compare
from pipeline.comparison.schema import Comparison, Pair
from pipeline.errors import InputError
from pipeline.files.writing import csv_text
from pipeline.machine.hardware import device
from pipeline.machine.left_out import study_as_made
from pipeline.records.blocks import SPEED
from pipeline.records.schema import EpochRecord, RunRecord
from pipeline.records.writing import epoch_times
from pipeline.study.schema import RunKey, Study


def compare_runs(root: Path = Path()) -> tuple[Comparison, dict[str, str]]:
    """Return the comparison of the study under `root` from its runs, and the files of it by their path from `root`.

    Raises:
        InputError: a run or a measurement of speed is missing or damaged, contradicts itself, or fits no other.
    """
    study = study_as_made(root)
    records = {key: read_record(key, root) for key in study.runs()}
    runs = {key: Run(record, read_epochs(record, root)) for key, record in records.items()}
    labels: dict[str, np.ndarray] = {}  # by benchmark
    for record in records.values():  # nothing below needs them; they must be those of the recorded accuracy
        read_predictions(record, root, labels)
    speeds = {name: read_speeds(study, name, root) for name in study.benchmarks}
    speed_device = device(read_circumstances(next(iter(study.benchmarks)), root).environment)
    comparison = compare(study, runs, speeds, speed_device)
    _check_circumstances(study, records, speed_device, root)
    rows, pairs = _rows(study, runs), table(comparison)
    files = {
        "comparison.json": comparison.model_dump_json(indent=2) + "\n",
        **{f"{name}.json": _json(values) for name, values in summarise(study, comparison).items()},
        "environments.json": _json(_environments(runs, speed_device)),
        "runs.csv": csv_text(list(rows[0]), rows),
        "epochs.csv": csv_text(
            [*RunKey._fields, *EpochRecord.model_fields],
            (key._asdict() | epoch.model_dump() for key, run in runs.items() for epoch in run.epochs),
        ),
        "pairs.csv": csv_text(list(pairs[0]), pairs),
    }
    return comparison, {f"results/{name}": text for name, text in files.items()}


def _check_circumstances(study: Study, records: Mapping[RunKey, RunRecord], speed_device: str, root: Path) -> None:
    """Check that the speed of every benchmark was measured on one device, as some of the runs there were made.

    Raises:
        InputError: it was measured elsewhere, or the file that says where is missing or damaged; and how to measure
            again.
    """
    made = {key.directory: surroundings(record.environment) for key, record in records.items()}
    there = {run: wanted for run, wanted in made.items() if wanted["device"] == speed_device} or made
    for benchmark in study.benchmarks:
        found = surroundings(read_circumstances(benchmark, root).environment)
        run, wanted = max(there.items(), key=lambda item: len(item[1].items() & found.items()))
        for what, value in wanted.items():
            if found[what] != value:
                raise InputError(
                    f"{root / SPEED / benchmark} and {run} can't be compared: they "
                    f"differ in {what} ({found[what]}; {value}). {remedy_of_speed(benchmark).damaged}"
                )


def _environments(runs: Mapping[RunKey, Run], speed_device: str) -> list[dict[str, object]]:
    """List the environments of the runs, each once; those of the device that speed was measured on come first."""
    found: list[dict[str, object]] = []
    for run in runs.values():
        stable = {name: value for name, value in run.record.environment.items() if name != "load_average"}
        if stable not in found:
            found.append(stable)
    return sorted(found, key=lambda stable: device(stable) != speed_device)


def _rows(study: Study, runs: Mapping[RunKey, Run]) -> list[dict[str, object]]:
    """Return a row a run: its record, and what disturbed it."""
    return [
        run.record.model_dump(exclude={"planned", "times", "memory", "scores", "disturbance", "environment"})
        | run.record.planned.cells()
        | run.record.times.cells()
        | run.record.memory.cells()
        | run.record.scores.cells()
        | run.record.disturbance.model_dump()
        | {"gpu_throttle_reasons": ", ".join(run.record.disturbance.gpu_throttle_reasons or [])}
        | epoch_times(run.epochs, study.comparison.num_warmup_epochs)
        for run in runs.values()
    ]


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


# Digits after the point. Each quantity is a file of its own: DVC shows a row a file, and a terminal is 80 columns wide.
METRICS = {"accuracy_difference_pp": 3, "speedup": 4, "test_accuracy": 5, "turn_epoch_seconds": 4}


def summarise(study: Study, comparison: Comparison) -> dict[str, dict[str, float]]:
    """Return numbers by quantity and benchmark; an unknown one is left out, because DVC can't subtract it.

    They are those of the first mixed policy at the baseline's batch.
    """
    numbers: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    for pair in _mixed_pairs(study, comparison):
        found = comparison.variant(pair.benchmark, pair.candidate)
        row = {
            "accuracy_difference_pp": pair.accuracy_difference_pp.mean,
            "speedup": pair.speedup.ratio,
            "test_accuracy": found.test_accuracy.mean,
            "turn_epoch_seconds": found.turn_epoch_seconds,
        }
        for name, value in row.items():
            if value is not None:
                numbers[name][pair.benchmark] = round(value, METRICS[name])
    return numbers


def _mixed_pairs(study: Study, comparison: Comparison) -> Iterator[Pair]:
    """Return the first mixed policy of each benchmark at the baseline's batch, beside the baseline."""
    baseline = study.comparison.baseline
    for benchmark in study.benchmarks:
        variants = study.variants_of(benchmark)
        batch = variants[baseline].batch_multiplier
        mixed = [name for name, of in variants.items() if (of.policy[:6], of.batch_multiplier) == ("mixed_", batch)]
        yield from [pair for name in mixed if (pair := comparison.find(benchmark, name, baseline))][:1]


def table(comparison: Comparison) -> list[dict[str, Any]]:
    """Return every pair as a row, as `pairs.csv` has it.

    Intervals are of 95 %. The p-values say that the accuracies differ by less than the margin, at all, and by more,
    each adjusted for the other candidates of its family.
    """
    return [
        {
            "benchmark": pair.benchmark,
            "variant": _name(comparison, pair),
            "num_seeds": pair.num_seeds,
            "speedup": pair.speedup.ratio,
            "speedup_low": pair.speedup.low,
            "speedup_high": pair.speedup.high,
            "speedup_at_most": pair.speedup_at_most,
            "memory_ratio": pair.memory_ratio.ratio,
            "accuracy_difference_pp": pair.accuracy_difference_pp.mean,
            "accuracy_difference_pp_low": pair.accuracy_difference_pp.low95,
            "accuracy_difference_pp_high": pair.accuracy_difference_pp.high95,
            **{f"p_value_{name}": value for name, value in pair.p_values._asdict().items()},
            "outcome": pair.equivalence.outcome,
        }
        for pair in comparison.pairs
    ]


def _name(comparison: Comparison, pair: Pair) -> str:
    """Name the candidate, and for a further pair also its baseline."""
    known = pair == comparison.find(pair.benchmark, pair.candidate)
    return pair.candidate if known else f"{pair.candidate}_against_{pair.baseline}"
