"""The kinds of claims: what each says, and what it needs."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.comparison.vocabulary import Value
from pipeline.records.schema import Outcome
from pipeline.study.configuration import Name, PositiveFloat, Section
from pipeline.study.variant import PolicyName

DEFAULT = "default"  # as a baseline: float32 as the device computes it where nobody asks for more


class Needs(Section):
    """The conditions of a claim: a kind of hardware, and the recipe that the source trained by.

    `name` is part of the name of the device that absolute times belong to. `recipe` maps key paths of a benchmark to
    the source's values; a study with others says "not this recipe". `profile` is that of this project which has the
    recipe and the variants, and costs least.
    """

    hardware: Literal["anything", "cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    min_compute_capability: PositiveFloat | None = None
    max_compute_capability: PositiveFloat | None = None
    min_memory_gb: PositiveFloat | None = None
    max_memory_gb: PositiveFloat | None = None
    name: str | None = None
    profile: Literal["quick", "evening", "paper", "tpu"] | None = None
    recipe: dict[str, Value | None] = Field(default_factory=dict, max_length=20)


class _Claim(Section):
    """`said_by` tells whose statement it is: the source's, or ours, who ask beyond it.

    `published` is what the source says in either case. `short` is for the table at the top of the report.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    source: str
    said_by: Literal["source", "us"] = "source"
    statement: str
    short: str | None = None
    published: str
    needs: Needs


class _Threshold(_Claim):
    """Something measured is at least or at most so much."""

    at_least: PositiveFloat | None = None
    at_most: PositiveFloat | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"claims ({self.id}): give one threshold, at_least or at_most.")
        return self


class SpeedupClaim(_Threshold):
    """The speedup of `candidate` over `baseline`, by default the study's, is at least or at most so much.

    Where `baseline` is `default`, it is float32 as the device computes it unless asked for more: TF32 on an NVIDIA GPU
    of compute capability 8.0 and up, bfloat16 products on a TPU, strict float32 elsewhere.
    """

    kind: Literal["speedup"]
    benchmark: Name
    candidate: Name
    baseline: Name | None = None
    with_validation: bool = False  # the source timed whole epochs

    @property
    def says_effect(self) -> bool:
        """Tell whether the claim is of a difference, which chance could feign, and not that there is none."""
        return self.at_least >= 1 if self.at_least is not None else (self.at_most or 1.0) < 1


class AccuracyClaim(_Claim):
    """`candidate` and `baseline`, by default the study's, reach the same test accuracy."""

    kind: Literal["same_accuracy"]
    benchmark: Name
    candidate: Name
    baseline: Name | None = None


class ValueClaim(_Claim):
    """One run gave `value`, an accuracy in [0, 1] or a loss; what is no further off than `tolerance` is the same."""

    kind: Literal["value"]
    benchmark: Name
    candidate: Name
    quantity: Literal["test_accuracy", "test_loss", "validation_accuracy"]
    value: float
    tolerance: PositiveFloat


class MemoryClaim(_Claim):
    """The peak memory of `candidate` is at most so many times that of the study's baseline."""

    kind: Literal["memory"]
    benchmark: Name
    candidate: Name
    at_most: PositiveFloat


class CeilingClaim(_Claim):
    """The largest batch that fits under `policy` is at least so many times the one under float32."""

    kind: Literal["largest_batch"]
    benchmark: Name
    policy: PolicyName
    at_least: PositiveFloat


class OutcomeClaim(_Claim):
    """Every run of `candidate` ends so."""

    kind: Literal["outcome"]
    benchmark: Name
    candidate: Name
    outcome: Outcome


class FactClaim(_Claim):
    """The numerics stage finds exactly `value`, under each of `quantities`."""

    kind: Literal["fact"]
    quantities: Annotated[dict[str, Value], Field(min_length=1, max_length=20)]


class TrialClaim(_Claim):
    """An optimizer trains, or fails to, at most seeds."""

    kind: Literal["trial"]
    trial: str
    trains: bool


class SampleClaim(_Threshold):
    """The mean of an experiment of the numerics stage, over its repetitions, is at least or at most so much."""

    kind: Literal["sample"]
    sample: str


class RoundingClaim(_Claim):
    """At default precision, every float32 product of a step of `benchmark` takes an operand in bfloat16."""

    kind: Literal["rounding"]
    benchmark: Name


class UntestedClaim(_Claim):
    """Something that no study here tests, why, and what would make it testable."""

    kind: Literal["untested"]
    reason: str
    testable_by: str


class DefinitionClaim(_Claim):
    """Something that follows from definitions, so that nothing measured could contradict it; `because` says how.

    It is shown, and no verdict counts it.
    """

    kind: Literal["definition"]
    because: str


Claim = Annotated[
    SpeedupClaim
    | AccuracyClaim
    | ValueClaim
    | MemoryClaim
    | CeilingClaim
    | OutcomeClaim
    | FactClaim
    | TrialClaim
    | SampleClaim
    | RoundingClaim
    | UntestedClaim
    | DefinitionClaim,
    Field(discriminator="kind"),
]
