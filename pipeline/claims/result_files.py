"""The contents of the files under `results/`, typed: everything printed has been one of these."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from pipeline.files.untrusted import Untrusted
from pipeline.records.measured import Memory, Scores, Share, Times
from pipeline.records.planned import Count, Planned
from pipeline.records.schema import Disturbance, EpochRecord, RunRecord

Verdict = Literal[
    "reproduced",
    "in direction only",
    "not reproduced",
    "inconclusive",
    "not this recipe",
    "not testable here",
    "definition",
]
# It ran on the hardware that the claim is about; or that hardware's compiler says so; or it follows from formats and
# shapes, by counting.
EvidenceKind = Literal["measured", "compiled", "counted"]


class Judgement(Untrusted):
    """A claim's verdict, in `verdicts.json`.

    `evidence` is the kind that the verdict rests on, None where there is none. `rule` is what decides, and
    `would_change` what would give another verdict.
    """

    id: str
    source: str
    said_by: Literal["source", "us"]
    verdict: Verdict
    evidence: EvidenceKind | None
    reason: str
    published: str
    measured: str | None
    rule: str
    would_change: str


class Sizes(Untrusted):
    weights_bytes: Count
    saved_bytes: Count


class ModelFacts(Untrusted):
    """`sizes` by policy; `narrow_layers` by the multiple their channels are not of: name and channels."""

    num_parameters: Count
    sizes: dict[str, Sizes]
    num_matrix_layers: Count
    narrow_layers: dict[str, dict[str, list[int]]]


class GradientsAt(Untrusted):
    """The fate in float16 of all gradients of a kind at one step; shares are of those not zero in float32."""

    of: Literal["activations", "weights"]
    num_steps_before: Count
    flushed_share: Share
    flushed_share_scaled: Share
    overflow_share_scaled: Share


class Gradients(Untrusted):
    """The number of activation gradients of each binary exponent, and the fate of gradients in float16.

    `steps` has those of activations, and those of weights at the first step and at a later one.
    """

    num_gradients: Count
    zero_share: Share
    exponents: list[Annotated[int, Field(ge=-2000, le=2000)]]
    counts: list[Count]
    loss_scale: float
    flushed_share: Share
    flushed_share_scaled: Share
    overflow_share_scaled: Share
    steps: list[GradientsAt]

    @model_validator(mode="after")
    def _a_count_for_each_exponent(self) -> "Gradients":
        if len(self.exponents) != len(self.counts):
            raise ValueError(f"{len(self.exponents)} exponents and {len(self.counts)} counts")
        return self


class TrialResult(Untrusted):
    """The seeds at which an optimizer trained under a policy, and the accuracies by seed beside float32's."""

    name: str
    policy: str
    optimizer: str
    options: dict[str, float]
    loss_scale: float | Literal["dynamic"] | None
    accuracies: list[float]
    float32_accuracies: list[float]
    num_trained: Count
    num_trials: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _no_more_trained_than_tried(self) -> "TrialResult":
        if self.num_trained > self.num_trials:
            raise ValueError(f"{self.num_trained} of {self.num_trials} trials")
        return self


class Numerics(Untrusted):
    """`numerics.json`; `models` and `gradients` are by benchmark, `samples` what each experiment gave each time."""

    schema_version: Literal[2]
    facts: dict[str, bool | int | float | str]
    samples: dict[str, list[float]]
    models: dict[str, ModelFacts]
    gradients: dict[str, Gradients]
    trials: list[TrialResult]


class Ceilings(Untrusted):
    """`ceilings.json`: the largest batch by benchmark and policy."""

    schema_version: Literal[1]
    largest_batch: dict[str, dict[str, int | None]]


class EpochRow(EpochRecord):
    """A row of `epochs.csv`."""

    benchmark: str
    variant: str
    seed: int


def run_row() -> type[BaseModel]:
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
