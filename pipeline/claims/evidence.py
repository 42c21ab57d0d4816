"""Read the evidence for judging claims: the results of the study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from pipeline.comparison.tables import Tables, read_tables
from pipeline.errors import InputError
from pipeline.files.untrusted import Sha256, Untrusted, read_json
from pipeline.machine.hardware import hardware_of
from pipeline.machine.left_out import study_as_made
from pipeline.numerics.facts import is_measured
from pipeline.records.run_record import Count, Environment, Share
from pipeline.study.schema import Study
from pipeline.study.variant import Variant

NUMERICS = "Make it with: dvc repro numerics"


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
        InputError: a file is missing, damaged, or of another study.
    """
    study = study_as_made(root)
    tables, numerics = read_tables(study, root), read_numerics(study, root)
    made_on = numerics and numerics["environment"]
    if numerics and made_on and hardware_of(made_on).kind not in {each.kind for each in tables.hardware()}:
        numerics = without_measured(numerics)
    return Evidence(study, tables, numerics)


def read_numerics(study: Study, root: Path = Path()) -> dict[str, Any] | None:
    """Return the content of results/numerics.json for `study`, or None if there is no such file."""
    if not (root / "results/numerics.json").exists():
        return None
    numerics = read_json(Numerics, root / "results/numerics.json", NUMERICS)
    recipes = {name: study.benchmarks[name].recipe for name in study.numerics_on or study.benchmarks}
    if numerics.identity and {name: of["recipe"] for name, of in numerics.identity["benchmarks"].items()} != recipes:
        raise InputError(
            f"{root / 'results/numerics.json'} belongs to a different study from the one in params.yaml. {NUMERICS}"
        )
    return numerics.model_dump()


def without_measured(numerics: Mapping[str, Any]) -> dict[str, Any]:
    """Return `numerics` without the values measured on a device, because the runs used another kind of device."""
    facts = {name: value for name, value in numerics["facts"].items() if not is_measured(name)}
    return {**numerics, "facts": facts, "samples": {}, "gradients": {}, "trials": []}


class Gradients(Untrusted):
    """Hold the number of activation gradients by binary exponent, and their fate in float16, scaled and unscaled.

    Shares are relative to the gradients that are not zero in float32.
    """

    exponents: list[Annotated[int, Field(ge=-2000, le=2000)]]
    counts: list[Count]
    loss_scale: float
    flushed_share: Share
    flushed_share_scaled: Share
    overflow_share_scaled: Share


class TrialResult(Untrusted):
    """Hold a trial of an optimizer under a policy: how many seeds trained, its accuracies, and those in float32."""

    name: str
    policy: str
    optimizer: str
    options: dict[str, float]
    loss_scale: float | Literal["dynamic"] | None
    accuracies: list[float]
    float32_accuracies: list[float]
    num_trained: Count
    num_trials: Annotated[int, Field(ge=1)]


class Numerics(Untrusted):
    """Hold the content of `numerics.json`: `gradients` by benchmark, and `samples` by experiment, one value per try.

    `identity` is everything that determines the content. `environment` describes the machine that produced it.
    """

    schema_version: Literal[4]
    identity: dict[str, Any] | None = None  # missing from early files
    environment: Environment | None = None  # missing from early files
    sha256: Sha256 | None = None  # of the rest of the file, without the identity
    facts: dict[str, bool | int | float | str]
    samples: dict[str, list[float]]
    gradients: dict[str, Gradients]
    trials: list[TrialResult]
