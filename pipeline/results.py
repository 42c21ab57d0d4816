"""Everything under `results/` that a report prints, read and checked."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.claims import Claims, load_claims
from pipeline.comparison import Comparison
from pipeline.errors import InputError
from pipeline.study import Study, load_study


class Results(NamedTuple):
    """What the report prints: the study, and everything under `results/`."""

    study: Study
    claims: Claims
    comparison: Comparison
    verdicts: list[dict[str, Any]]
    environments: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    epochs: list[dict[str, Any]]
    numerics: dict[str, Any]
    ceilings: dict[str, Any]


def load_results(root: Path = Path()) -> Results:
    """Reads the results under `root`. Raises `InputError` that names the file that is missing or damaged."""
    results = root / "results"

    def read(name: str, parse: Callable[[str], Any]) -> Any:
        path = results / name
        try:
            return parse(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path} is missing. Make it with: dvc repro") from None
        except ValueError as error:
            raise InputError(
                f"{path} is damaged ({str(error).splitlines()[0]}). "
                "Make it again: dvc repro --force --single-item numerics ceilings compare judge"
            ) from None

    return Results(
        study=load_study(root / "params.yaml"),
        claims=load_claims(root / "claims.yaml"),
        comparison=read("comparison.json", Comparison.model_validate_json),
        verdicts=read("verdicts.json", json.loads),
        environments=read("environments.json", json.loads),
        runs=read("runs.csv", _rows),
        epochs=read("epochs.csv", _rows),
        numerics=read("numerics.json", json.loads),
        ceilings=read("ceilings.json", json.loads),
    )


def _rows(text: str) -> list[dict[str, Any]]:
    return [{name: _value(cell) for name, cell in row.items()} for row in csv.DictReader(text.splitlines())]


def _value(cell: str) -> Any:
    if cell == "":
        return None
    for convert in (int, float):
        try:
            return convert(cell)
        except ValueError:
            pass
    return cell
