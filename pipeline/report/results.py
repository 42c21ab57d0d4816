"""Read everything that a report prints, and check that its parts are of one study."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, create_model

from pipeline.claims.evidence import read_comparison, read_environments, read_numerics, read_result
from pipeline.claims.schema import Claims, load_claims
from pipeline.claims.verdicts import Judgement, Verdicts
from pipeline.comparison.schema import Comparison
from pipeline.files.untrusted import Remedy, read_rows
from pipeline.machine.left_out import read_left_out, study_as_made
from pipeline.records.schema import Disturbance, EpochRecord, Memory, Planned, RunRecord, Scores, Times
from pipeline.study.schema import Study

TABLE = Remedy(*["Make it with: dvc repro compare"] * 2)


class Compared(Protocol):
    """Hold what the answers of a study are made of."""

    @property
    def study(self) -> Study: ...
    @property
    def comparison(self) -> Comparison: ...
    @property
    def environments(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def runs(self) -> Sequence[dict[str, Any]]: ...


class Results(NamedTuple):
    """All that the report prints: the study, and everything under `results/`."""

    study: Study
    claims: Claims
    comparison: Comparison
    verdicts: list[Judgement]
    environments: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    epochs: list[dict[str, Any]]
    numerics: dict[str, Any]
    left_out: dict[str, str]  # why, by variant that the study has and this machine had no use for


def ended_at(results: Results) -> str:
    """Return when the last run ended, in ISO 8601."""
    ends = (
        datetime.fromisoformat(run["started_at"]) + timedelta(seconds=run["run_seconds"] or 0.0) for run in results.runs
    )
    return max(ends).isoformat(timespec="seconds")


def load_results(root: Path = Path()) -> Results:
    """Read the results under `root`.

    Raises:
        InputError: names the file that is missing, or of another study.
    """
    study, claims = study_as_made(root), load_claims(root / "claims.yaml")
    return Results(
        study=study,
        claims=claims,
        comparison=read_comparison(study, root),
        verdicts=read_result("verdicts.json", Verdicts, root).judgements,
        environments=read_environments(root),
        runs=[row.model_dump() for row in read_rows(_run_row(), root / "results/runs.csv", TABLE)],
        epochs=[row.model_dump() for row in read_rows(EpochRow, root / "results/epochs.csv", TABLE)],
        numerics=read_numerics(study, root),
        left_out=read_left_out(study, root),
    )


class EpochRow(EpochRecord):
    """A row of `epochs.csv`."""

    benchmark: str
    variant: str
    seed: int


def _run_row() -> type[BaseModel]:
    """Return the model of a row of `runs.csv`: what of a record fits a cell, what was measured, what disturbed it."""
    parts = {"planned", "times", "memory", "scores", "disturbance", "environment"}
    no_cell = parts | {"schema_version", "excluded_epochs"}
    fields: dict[str, Any] = {
        field.serialization_alias or name: (field.annotation, ...)
        for model in (RunRecord, Planned, Times, Memory, Scores, Disturbance)
        for name, field in model.model_fields.items()
        if name not in no_cell
    }
    fields |= {"loss_scale": (Literal["dynamic", "fixed", "none"], ...), "gpu_throttle_reasons": (str | None, ...)}
    row: type[BaseModel] = create_model(
        "RunRow", __config__=ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False), **fields
    )
    return row
