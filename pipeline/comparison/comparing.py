"""The runs under a folder to the files that the compare stage writes."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.comparison.finished_runs import Run, read_epochs, read_predictions, read_record
from pipeline.comparison.finished_speeds import SPEED, check_circumstances, read_speeds
from pipeline.comparison.paired_runs import compare
from pipeline.comparison.schema import Comparison
from pipeline.comparison.sittings import read_sittings
from pipeline.comparison.summary import summarise, table
from pipeline.records.schema import EpochRecord
from pipeline.records.writing import epoch_times
from pipeline.study.schema import RunKey, Study, load_study


def compare_runs(root: Path = Path()) -> tuple[Comparison, dict[str, str]]:
    """Return the comparison of the study under `root` from its runs, and the files of it by their path from `root`.

    Raises:
        InputError: a run or a measurement of speed is missing or damaged, contradicts itself, or fits no other.
    """
    study = load_study(root / "params.yaml")
    records = {key: read_record(key, root) for key in study.runs()}
    runs = {key: Run(record, read_epochs(record, root)) for key, record in records.items()}
    labels: dict[str, np.ndarray] = {}  # by benchmark
    for record in records.values():  # nothing below needs them; they must be those of the recorded accuracy
        read_predictions(record, root, labels)
    speeds = {name: read_speeds(study, name, root / SPEED) for name in study.benchmarks}
    comparison = compare(study, runs, speeds, read_sittings(root))
    check_circumstances(study, next(iter(records.values())), root)
    files = {
        "comparison.json": comparison.model_dump_json(indent=2) + "\n",
        **{f"{name}.json": _json(values) for name, values in summarise(study, comparison).items()},
        "environments.json": _json(_environments(runs)),
        "runs.csv": _csv(_rows(study, runs)),
        "epochs.csv": _csv(
            [key._asdict() | epoch.model_dump() for key, run in runs.items() for epoch in run.epochs],
            [*RunKey._fields, *EpochRecord.model_fields],
        ),
        "pairs.csv": _csv(table(comparison)),
    }
    return comparison, {f"results/{name}": text for name, text in files.items()}


def _environments(runs: Mapping[RunKey, Run]) -> list[dict[str, object]]:
    """List the environments of the runs, each once."""
    found: list[dict[str, object]] = []
    for run in runs.values():
        stable = {name: value for name, value in run.record.environment.items() if name != "load_average"}
        if stable not in found:
            found.append(stable)
    return found


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


def _csv(rows: Sequence[Mapping[str, object]], columns: list[str] | None = None) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns or list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
