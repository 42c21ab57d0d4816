"""Compare the runs of the study: statistics of every variant against the baseline."""

import argparse
import csv
import json
from pathlib import Path

from pipeline.comparison import Run, compare, steady_epoch_seconds, summary
from pipeline.records import read_epochs, read_record
from pipeline.study import load_study
from stages import run

RESULTS = Path("results")


def main(_: argparse.Namespace) -> None:
    study = load_study()
    records = {key: read_record(key) for key in study.runs()}
    runs = {key: Run(record, read_epochs(record)) for key, record in records.items()}
    comparison = compare(study, runs)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "comparison.json").write_text(comparison.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _write_json(RESULTS / "summary.json", summary(study, comparison, runs))
    environments = [run.record.environment for run in runs.values()]
    stable = [{name: value for name, value in e.items() if name != "load_average"} for e in environments]
    _write_json(RESULTS / "environments.json", [e for i, e in enumerate(stable) if e not in stable[:i]])
    _write_csv(
        RESULTS / "runs.csv",
        [
            run.record.model_dump(exclude={"environment"})
            | {"steady_epoch_seconds": steady_epoch_seconds(run.epochs, study.comparison.num_warmup_epochs)}
            for run in runs.values()
        ],
    )
    _write_csv(
        RESULTS / "epochs.csv",
        [key._asdict() | epoch.model_dump() for key, run in runs.items() for epoch in run.epochs],
    )
    print(f"{len(runs)} runs, {len(comparison.pairs)} comparisons")


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _write_csv(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.compare", description=__doc__))
