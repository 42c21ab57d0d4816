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


# Which stage writes a file: the remedy where it is damaged.
_STAGES = {"numerics.json": "numerics", "ceilings.json": "ceilings", "verdicts.json": "judge"}
_KEYS = {
    "numerics.json": {"facts", "models", "gradients", "trials"},
    "ceilings.json": {"largest_batch"},
}


def load_results(root: Path = Path()) -> Results:
    """Reads the results under `root`.

    Raises:
        InputError: names the file that is missing, damaged, or of another study.
    """
    return Results(
        study=load_study(root / "params.yaml"),
        claims=load_claims(root / "claims.yaml"),
        comparison=read_comparison(root),
        verdicts=read_json("verdicts.json", root),
        environments=read_json("environments.json", root),
        runs=_read("runs.csv", _rows, root),
        epochs=_read("epochs.csv", _rows, root),
        numerics=read_json("numerics.json", root),
        ceilings=read_json("ceilings.json", root),
    )


def read_comparison(root: Path = Path()) -> Comparison:
    """The comparison under `root`, of the study that `params.yaml` describes now."""
    comparison: Comparison = _read("comparison.json", Comparison.model_validate_json, root)
    if comparison.study_sha256 != load_study(root / "params.yaml").digest:
        raise InputError(f"{root / 'results/comparison.json'} is of another study than params.yaml. Run: dvc repro")
    return comparison


def read_json(name: str, root: Path = Path()) -> Any:
    """The content of a JSON file under `results/`, with the keys and rows it must have."""

    def parse(text: str) -> Any:
        value = json.loads(text)
        keys = _KEYS.get(name)
        if keys and not (isinstance(value, dict) and keys <= value.keys()):
            raise ValueError(f"it must have {', '.join(sorted(keys))}")
        if not keys and not (isinstance(value, list) and value):
            raise ValueError("it must be a list that is not empty")
        return value

    return _read(name, parse, root)


def _read(name: str, parse: Callable[[str], Any], root: Path) -> Any:
    path = root / "results" / name
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} is missing. Make it with: dvc repro") from None
    except ValueError as error:
        stage = _STAGES.get(name, "compare")
        remedy = f"Make it again: dvc repro --force --single-item {stage}"
        raise InputError(f"{path} is damaged ({str(error).splitlines()[0]}). {remedy}") from None


def _rows(text: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(text.splitlines())
    rows = [{name: _value(cell) for name, cell in row.items()} for row in reader]
    if len(reader.fieldnames or ()) < 2:
        raise ValueError("it has no columns")
    return rows


def _value(cell: str) -> Any:
    if cell == "":
        return None
    for convert in (int, float):
        try:
            return convert(cell)
        except ValueError:
            pass
    return cell
