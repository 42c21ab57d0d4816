"""Read the evidence for judging claims: the results of the study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.comparison.tables import Tables, read_tables
from pipeline.errors import InputError
from pipeline.files.places import NUMERICS
from pipeline.files.untrusted import read_json
from pipeline.machine.hardware import hardware_of
from pipeline.machine.left_out import study_as_made
from pipeline.numerics.facts import is_measured
from pipeline.records.numerics import Numerics
from pipeline.study.schema import Study
from pipeline.study.variant import Variant

REMEDY = "Make it with: dvc repro numerics"


class Evidence(NamedTuple):
    """Hold the results that claims are judged by.

    `numerics` is the content of results/numerics.json, or None if there is no such file. `variants` defines the
    variants that claims name.
    """

    study: Study
    tables: Tables
    numerics: Mapping[str, Any] | None
    variants: Mapping[str, Variant] = {}


def read_evidence(root: Path = Path()) -> Evidence:
    """Return the evidence under `root`, with `variants` left empty.

    Raises:
        InputError: a file is missing or damaged, or belongs to another study.
    """
    study = study_as_made(root)
    tables, numerics = read_tables(study, root), read_numerics(study, root)
    made_on = numerics and numerics["environment"]
    if numerics and made_on and hardware_of(made_on).kind not in {each.kind for each in tables.hardware()}:
        numerics = without_measured(numerics)
    return Evidence(study, tables, numerics)


def read_numerics(study: Study, root: Path = Path()) -> dict[str, Any] | None:
    """Return the content of results/numerics.json for `study`, or None if there is no such file."""
    path = root / NUMERICS
    if not path.exists():
        return None
    numerics = read_json(Numerics, path, REMEDY)
    recipes = {name: study.benchmarks[name].recipe for name in study.numerics_on or study.benchmarks}
    if numerics.identity and {name: of["recipe"] for name, of in numerics.identity["benchmarks"].items()} != recipes:
        raise InputError(f"{path} belongs to a different study from the one in params.yaml. {REMEDY}")
    return numerics.model_dump()


def without_measured(numerics: Mapping[str, Any]) -> dict[str, Any]:
    """Return `numerics` without the values measured on a device, because the runs used another kind of device."""
    facts = {name: value for name, value in numerics["facts"].items() if not is_measured(name)}
    return {**numerics, "facts": facts, "samples": {}, "gradients": {}, "trials": []}
