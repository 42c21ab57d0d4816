"""Published claims as data."""

import difflib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pipeline.comparison.vocabulary import Value
from pipeline.files.untrusted import excerpt
from pipeline.numerics.facts import TRIALS, fact_names, sample_names
from pipeline.records.schema import Outcome
from pipeline.study.benchmark import Benchmark, Dense, EfficientNet, Split
from pipeline.study.configuration import MAX_ENTRIES, Name, PositiveFloat, Section, read
from pipeline.study.recipe import LearningRateRule, Optimizer
from pipeline.study.variant import PolicyName, Variant

CLAIMS = Path("claims.yaml")
MAX_CLAIMS = 1000  # also of sources, and of figures
DEFAULT = "default"  # as a baseline: float32 as the device computes it where nobody asks for more


class Source(Section):
    title: str
    hardware: str


class Figure(Section):
    """A number a source published for one of our benchmarks, shown beside ours."""

    source: str
    benchmark: Name
    condition: str
    quantity: str
    value: str


class Needs(Section):
    """The conditions of a claim: a kind of hardware, and the recipe that the source trained by.

    `name` is part of the name of the device that absolute times belong to. `recipe` maps key paths of a benchmark to
    the source's values; a study with others says "not this recipe".
    """

    hardware: Literal["anything", "cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    min_compute_capability: PositiveFloat | None = None
    max_compute_capability: PositiveFloat | None = None
    min_memory_gb: PositiveFloat | None = None
    max_memory_gb: PositiveFloat | None = None
    name: str | None = None
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
    | UntestedClaim
    | DefinitionClaim,
    Field(discriminator="kind"),
]


class Claims(Section):
    """`variants` says what the names in claims mean; a study's variant of that name must be the same."""

    sources: Annotated[dict[str, Source], Field(max_length=MAX_CLAIMS)]
    benchmarks: Annotated[list[Name], Field(max_length=MAX_ENTRIES)]
    variants: Annotated[dict[Name, Variant], Field(max_length=MAX_ENTRIES)]
    figures: Annotated[list[Figure], Field(max_length=MAX_CLAIMS)]
    claims: Annotated[list[Claim], Field(max_length=MAX_CLAIMS)]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        faults = []
        paths = _recipe_paths()
        for index, claim in enumerate(self.claims):
            faults += [
                f"claims.{index} ({claim.id}).needs.recipe: no benchmark has {path!r}. "
                f"Did you mean {(difflib.get_close_matches(path, paths, n=1) or ['model.units'])[0]!r}?"
                for path in claim.needs.recipe
                if path not in paths
            ]
        counts = Counter(claim.id for claim in self.claims)
        faults += [f"claims: the id {name!r} stands {count} times." for name, count in counts.items() if count > 1]
        known = {
            "source": set(self.sources),
            "benchmark": set(self.benchmarks),
            "candidate": set(self.variants),
            "baseline": {*self.variants, DEFAULT},
            "quantities": fact_names(self.benchmarks),
            "trial": {trial.name for trial in TRIALS},
            "sample": sample_names(self.benchmarks),
        }
        listed = {field: excerpt(", ".join(sorted(names)), 1500) for field, names in known.items()}
        entries = [(f"claims.{index} ({claim.id})", claim) for index, claim in enumerate(self.claims)]
        for where, entry in [*entries, *((f"figures.{index}", figure) for index, figure in enumerate(self.figures))]:
            faults += [
                f"{where}.{field}: must be one of {listed[field]}. Received: {value!r}"
                for field, value in _names(entry)
                if value not in known[field]
            ]
        if faults:
            raise ValueError("\n".join(faults))
        return self


def _names(entry: Any) -> Iterator[tuple[str, str]]:
    """Yield each name in a claim or figure: its field, and the name."""
    fields = ("source", "benchmark", "candidate", "baseline", "trial", "sample")
    yield from ((field, name) for field in fields if (name := getattr(entry, field, None)) is not None)
    yield from (("quantities", quantity) for quantity in getattr(entry, "quantities", ()))


def _recipe_paths() -> set[str]:
    """Key paths of everything that a benchmark may say."""
    parts: dict[str, tuple[type[Section], ...]] = {
        "model": (Dense, EfficientNet),
        "split": (Split,),
        "optimizer": (Optimizer,),
        "learning_rate_rule": (LearningRateRule,),
    }
    inner = {f"{part}.{name}" for part, kinds in parts.items() for kind in kinds for name in kind.model_fields}
    return set(Benchmark.model_fields) | inner


def load_claims(path: Path = CLAIMS) -> Claims:
    """Return the validated claims in `path`. Raise `InputError` that lists all faults."""
    return read(Claims, path)
