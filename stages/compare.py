"""Compare the runs of the study: statistics of every variant against the baseline."""

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.blocks import Run, compare
from pipeline.finished_runs import read_correct, read_epochs, read_record
from pipeline.records import EpochRecord
from pipeline.study import RunKey, load_study
from pipeline.summary import summarise, table
from pipeline.timing import steady_epoch_seconds
from stages import run

RESULTS = Path("results")


def main(_: argparse.Namespace) -> None:
    study = load_study()
    records = {key: read_record(key) for key in study.runs()}
    runs = {key: Run(record, read_epochs(record), read_correct(record)) for key, record in records.items()}
    comparison = compare(study, runs)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "comparison.json").write_text(comparison.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _write_json(RESULTS / "summary.json", summarise(comparison))
    environments: list[dict[str, object]] = []
    for record in records.values():
        stable = {name: value for name, value in record.environment.items() if name != "load_average"}
        if stable not in environments:
            environments.append(stable)
    _write_json(RESULTS / "environments.json", environments)
    metrics = sorted({name for benchmark in study.benchmarks.values() for name in benchmark.metrics})
    _write_csv(
        RESULTS / "runs.csv",
        [
            run.record.model_dump(exclude={"environment", "disturbance", "test_metrics"})
            | {name: run.record.test_metrics.get(name) for name in metrics}
            | run.record.disturbance.model_dump()
            | {"gpu_throttle_reasons": ", ".join(run.record.disturbance.gpu_throttle_reasons or [])}
            | {"steady_epoch_seconds": steady_epoch_seconds(run.epochs, study.comparison.num_warmup_epochs)}
            for run in runs.values()
        ],
    )
    _write_csv(
        RESULTS / "epochs.csv",
        [key._asdict() | epoch.model_dump() for key, run in runs.items() for epoch in run.epochs],
        [*RunKey._fields, *EpochRecord.model_fields],
    )
    _write_csv(RESULTS / "pairs.csv", table(comparison))
    print(f"{len(runs)} runs, {len(comparison.pairs)} comparisons")
    left_out = [
        (RunKey(variant.benchmark, variant.variant, seed), fault)
        for variant in comparison.variants
        for seed, fault in variant.timing_faults.items()
    ]
    for key, fault in left_out:
        print(f"{key.directory}: its times are left out, {fault}")
    if left_out:
        print("on a quiet machine: dvc repro --force --single-item " + " ".join(key.stage for key, _ in left_out))


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _write_csv(path: Path, rows: Sequence[Mapping[str, object]], columns: list[str] | None = None) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.compare", description=__doc__))
