"""Read the study, the claims and the results that a report shows."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pipeline.claims.claim import Judgement
from pipeline.claims.claims_file import Claims, load_claims
from pipeline.claims.verdicts import read_numerics, read_verdicts
from pipeline.comparison.finished_runs import read_circumstances, read_record
from pipeline.comparison.tables import Row, Tables, read_table, read_tables
from pipeline.files.places import EPOCHS, SPEED
from pipeline.machine.left_out import read_left_out, study_as_made
from pipeline.records.blocks import Launch
from pipeline.records.run_record import Environment
from pipeline.study.schema import Study


class Results(NamedTuple):
    """Hold the study, the claims and the results that a report shows."""

    study: Study
    claims: Claims
    tables: Tables
    verdicts: list[Judgement]
    environments: list[Environment]  # distinct; those of speed measurements first
    epochs: Sequence[Row]
    numerics: Mapping[str, Any] | None
    left_out: dict[str, str]  # by variant, why the machine of the runs left it out: a key in sentences.yaml
    started_at: str  # when the first run or launch started, in ISO 8601; empty if there is none
    ended_at: str  # when the last run or launch ended, in ISO 8601; empty if there is none

    def curves(self, benchmark: str) -> dict[str, dict[int, float]]:
        """Return the benchmark's validation accuracy in [0, 1] by variant and epoch, averaged over seeds."""
        found: dict[str, dict[int, list[float]]] = {}
        for row in self.epochs:
            if row.benchmark == benchmark:
                found.setdefault(row.variant, {}).setdefault(row.epoch, []).append(row.validation_accuracy)
        return {name: {epoch: fmean(values) for epoch, values in sorted(by.items())} for name, by in found.items()}


def load_results(root: Path = Path()) -> Results:
    """Read the results under `root`.

    Raises:
        InputError: a file is missing or damaged, or belongs to another study. The message names the file.
    """
    study = study_as_made(root)
    tables = read_tables(study, root)
    made = [(run.started_at, run.run_seconds) for run in tables.runs]
    made += [(launch.started_at, launch.seconds) for launch in launches(study, root) if launch.started_at]
    starts = [datetime.fromisoformat(start) for start, _ in made]
    ends = [start + timedelta(seconds=seconds) for start, (_, seconds) in zip(starts, made, strict=True)]
    return Results(
        study=study,
        claims=load_claims(root / "claims.yaml"),
        tables=tables,
        verdicts=read_verdicts(root),
        environments=read_environments(study, root),
        epochs=read_table(root / EPOCHS),
        numerics=read_numerics(study, root),
        left_out=read_left_out(study, root),
        started_at=min(starts).isoformat(timespec="seconds") if starts else "",
        ended_at=max(ends).isoformat(timespec="seconds") if ends else "",
    )


def launches(study: Study, root: Path) -> list[Launch]:
    """Return the launches of all speed measurements. Within a measurement, the last launch comes first."""
    names = [name for name in study.timed_benchmarks if (root / SPEED / name).exists()]
    return [launch for name in names for launch in reversed(read_circumstances(name, root).launches)]


def read_environments(study: Study, root: Path) -> list[Environment]:
    """Return the distinct environments, first those of speed measurements, then those of runs."""
    found: list[Environment] = []
    measured = [launch.environment for launch in launches(study, root)]
    made = [read_record(key, root).environment for key in study.runs() if (root / key.directory).exists()]
    for environment in [*measured, *made]:
        if environment not in found:
            found.append(environment)
    return found
