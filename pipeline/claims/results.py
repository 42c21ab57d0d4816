"""Everything under `results/` that a report prints, read and checked."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from pipeline.claims.result_files import Ceilings, EpochRow, Judgement, Numerics, run_row
from pipeline.claims.schema import Claims, load_claims
from pipeline.comparison.schema import MIN_COMPARED_SEEDS, Agreement, Comparison
from pipeline.compiled.answers import read_compiled
from pipeline.compiled.schema import COMPILED_FILES, CompiledTarget
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, damaged, excerpt, read_json, read_rows
from pipeline.numerics.facts import POLICIES, facts_of
from pipeline.records.environment import StableEnvironment
from pipeline.study.schema import Study, load_study

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)


class Results(NamedTuple):
    """All that the report prints: the study, everything under `results/`, and what was compiled for other hardware."""

    study: Study
    claims: Claims
    comparison: Comparison
    agreements: list[Agreement]
    verdicts: list[dict[str, Any]]
    environments: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    epochs: list[dict[str, Any]]
    numerics: dict[str, Any]
    ceilings: dict[str, Any]
    compiled: list[CompiledTarget]


def ended_at(results: Results) -> str:
    """Return when the last run ended, in ISO 8601."""
    ends = (
        datetime.fromisoformat(run["started_at"]) + timedelta(seconds=run["run_seconds"] or 0.0) for run in results.runs
    )
    return max(ends).isoformat(timespec="seconds")


# Which stage writes a file: the remedy where it is damaged.
_STAGES = {"numerics.json": "numerics", "ceilings.json": "ceilings", "verdicts.json": "judge"}


def load_results(root: Path = Path()) -> Results:
    """Read the results under `root`.

    Raises:
        InputError: names the file that is missing, damaged, or of another study.
    """
    study, claims = load_study(root / "params.yaml"), load_claims(root / "claims.yaml")
    comparison = read_comparison(root)
    runs = [row.model_dump() for row in _rows("runs.csv", run_row(), root)]
    if [(row["benchmark"], row["variant"], row["seed"]) for row in runs] != study.runs():
        raise _damaged("runs.csv", "its runs are not those of params.yaml", root)
    epochs = [row.model_dump() for row in _rows("epochs.csv", EpochRow, root)]
    if not {(row["benchmark"], row["variant"], row["seed"]) for row in epochs} <= set(study.runs()):
        raise _damaged("epochs.csv", "its runs are not those of params.yaml", root)
    verdicts = _read("verdicts.json", list[Judgement], root)
    if [verdict.id for verdict in verdicts] != [claim.id for claim in claims.claims]:
        raise _damaged("verdicts.json", "its claims are not those of claims.yaml", root)
    return Results(
        study=study,
        claims=claims,
        comparison=comparison,
        agreements=_read_agreements(comparison, root),
        verdicts=[verdict.model_dump() for verdict in verdicts],
        environments=read_environments(root),
        runs=runs,
        epochs=epochs,
        numerics=read_numerics(study, root),
        ceilings=read_ceilings(root),
        compiled=read_compiled(root / COMPILED_FILES),
    )


def read_comparison(root: Path = Path()) -> Comparison:
    """Read the comparison under `root`, of the study that `params.yaml` describes now."""
    study = load_study(root / "params.yaml")
    comparison = _read("comparison.json", Comparison, root)
    variants = {(variant.benchmark, variant.variant) for variant in comparison.variants}
    pairs = {(pair.benchmark, name) for pair in comparison.pairs for name in (pair.baseline, pair.candidate)}
    wanted = {(key.benchmark, key.variant) for key in study.runs()}
    if comparison.study_sha256 != study.digest or variants != wanted or not pairs <= wanted:
        path = root / "results/comparison.json"
        raise InputError(f"{path} is of another study than params.yaml. Run: dvc repro")
    return comparison


def _read_agreements(comparison: Comparison, root: Path) -> list[Agreement]:
    found = _read("agreement.json", list[Agreement], root)
    wanted = [pair for pair in comparison.pairs if pair.num_seeds >= MIN_COMPARED_SEEDS]
    names = [(pair.benchmark, pair.baseline, pair.candidate, pair.num_seeds) for pair in wanted]
    if [(each.benchmark, each.baseline, each.candidate, len(each.seeds)) for each in found] != names:
        raise _damaged("agreement.json", "its pairs are not those of comparison.json", root)
    return found


def read_numerics(study: Study, root: Path = Path()) -> dict[str, Any]:
    """Return what 16-bit arithmetic did on the machine of `study`."""
    numerics = _read("numerics.json", Numerics, root)
    if odd := (numerics.models.keys() | numerics.gradients.keys()) - study.benchmarks.keys():
        raise _damaged("numerics.json", f"params.yaml has no benchmark {excerpt(min(odd))!r}", root)
    # Of a benchmark that did not fit into memory nothing is known.
    lacking = facts_of(name for name in study.benchmarks if name in numerics.gradients).keys() - numerics.facts.keys()
    for name, model in numerics.models.items():
        lacking |= {f"models.{name}.sizes.{policy}" for policy in POLICIES if policy not in model.sizes}
        lacking |= {f"models.{name}.narrow_layers.{of}" for of in ("8", "128") if of not in model.narrow_layers}
    if lacking:
        raise _damaged("numerics.json", f"it has no {min(lacking)}", root)
    return numerics.model_dump()


def read_ceilings(root: Path = Path()) -> dict[str, Any]:
    return _read("ceilings.json", Ceilings, root).model_dump()


def read_environments(root: Path = Path()) -> list[dict[str, Any]]:
    """Return the environments that the runs were made in; at least one."""
    environments = _read("environments.json", list[StableEnvironment], root)
    if not environments:
        raise _damaged("environments.json", "it is empty", root)
    return [dict(environment) for environment in environments]


def _read(name: str, model: type[T], root: Path) -> T:
    return read_json(model, root / "results" / name, _remedy(name))


def _rows(name: str, model: type[ModelT], root: Path) -> list[ModelT]:
    return read_rows(model, root / "results" / name, _remedy(name))


def _remedy(name: str) -> Remedy:
    stage = _STAGES.get(name, "compare")
    return Remedy("Make it with: dvc repro", f"Make it again: dvc repro --force --single-item {stage}")


def _damaged(name: str, reason: str, root: Path) -> InputError:
    return damaged(root / "results" / name, reason, _remedy(name))
