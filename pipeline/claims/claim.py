"""Define what every claim has: its wording, its conditions, its threshold, and the record of its verdict."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from pipeline.comparison.tables import Row, Tables
from pipeline.files.untrusted import Untrusted
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import Value
from pipeline.statistics.intervals import Estimate
from pipeline.study.configuration import Name, PositiveFloat, Section
from pipeline.study.schema import Study
from pipeline.study.variant import DEFAULT_POLICY, Variant
from pipeline.words.sentences import Said

DEFAULT = "default"  # as a baseline: float32 at the device's default precision
TF32 = "tf32"  # the variant that "default" means on devices whose default is less precise than float32
Verdict = Literal[
    "reproduced", "in direction only", "not reproduced", "inconclusive", "not this recipe", "not testable here"
]
Answer = Literal["found", "not found", "open"]
# Our own experiments have nothing to reproduce, so each verdict has another name for them.
ANSWERS: Mapping[str, Answer] = {
    "reproduced": "found",
    "in direction only": "not found",
    "not reproduced": "not found",
    "inconclusive": "open",
    "not this recipe": "open",
    "not testable here": "open",
}
# Measured on the hardware that the claim is about, or counted from formats and shapes.
EvidenceKind = Literal["measured", "counted"]


class Evidence(NamedTuple):
    """Hold the results that claims are judged by.

    `numerics` is the content of results/numerics.json, or None if there is no such file. `variants` defines the
    variants that claims name.
    """

    study: Study
    tables: Tables
    numerics: Mapping[str, Any] | None
    variants: Mapping[str, Variant] = {}


class Judgement(Untrusted):
    """Hold the verdict on a source's claim, or the answer of one of our experiments.

    `measured` says what was found, `would_change` what would decide the claim. `evidence` is the kind of evidence
    behind the verdict. None means that no study here tested the claim.
    """

    id: str
    source: str
    is_finding: bool = False
    verdict: Verdict | Answer
    evidence: EvidenceKind | None = None
    reason: Said
    measured: list[Said] = Field(default_factory=list)
    would_change: Said | None = None


class NotTestableError(Exception):
    """Say why the evidence can't test a claim, and what would make the claim testable."""

    def __init__(self, reason: Said, remedy: Said) -> None:
        super().__init__(reason, remedy)
        self.reason, self.remedy = reason, remedy


class Needs(Section):
    """Hold the conditions of a claim: a kind of hardware, and the recipe of the source's training.

    `recipe` maps key paths of a benchmark to the source's values. A study with other values gets "not this recipe".
    `profile` is the cheapest profile of this project that has the recipe and the variants.
    """

    hardware: Literal["anything", "cpu", "intel_cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    min_compute_capability: PositiveFloat | None = None
    max_compute_capability: PositiveFloat | None = None
    min_memory_gb: PositiveFloat | None = None
    max_memory_gb: PositiveFloat | None = None
    profile: Literal["quick", "gpu", "evening", "float8", "resnet9", "paper"] | None = None
    recipe: dict[str, Value | None] = Field(default_factory=dict)

    def fits(self, hardware: Hardware) -> bool:
        """Tell whether the claim is about this hardware."""
        kind = "cpu" if self.hardware == "intel_cpu" else self.hardware
        if self.hardware == "anything":
            return True
        if hardware.kind != kind or (self.hardware == "intel_cpu" and "intel" not in hardware.name.lower()):
            return False
        memory_gb = hardware.memory_bytes and hardware.memory_bytes / 1e9
        return _lies(hardware.compute_capability, self.min_compute_capability, self.max_compute_capability) and _lies(
            memory_gb, self.min_memory_gb, self.max_memory_gb
        )

    @property
    def limits(self) -> dict[str, Any]:
        """Return the conditions on hardware, as values for a sentence."""
        return self.model_dump(exclude={"profile", "recipe"})


def _lies(value: float | None, low: float | None, high: float | None) -> bool:
    """Tell whether a value lies within limits. An unknown value passes only if there are no limits."""
    return low is high is None or (value is not None and (low or 0.0) <= value <= (high or math.inf))


class Threshold(NamedTuple):
    """Hold the smallest or the largest value that a claim allows."""

    limit: float
    is_least: bool
    unit: str = "×"

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit


class BaseClaim(Section):
    """Hold a source's claim, or a finding of our own.

    `statement` restates the source's sentence in our words. In a finding, `statement` is what we expect, and `beside`
    is what the source says about the same question. `short` is the wording for the rows of the report. Each kind of
    claim has its sentences under `claim.<kind>` in sentences.yaml.
    """

    kind: str
    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    source: str
    statement: str
    short: str | None = None
    beside: str | None = None
    needs: Needs

    @property
    def asked(self) -> Said | None:
        """Say what this project measures or counts for the claim, and which result confirms it."""
        return self.say("asked", **self.told)

    @property
    def told(self) -> dict[str, Any]:
        """Return what the sentence on what is asked may use: the fields of the claim, and more."""
        return dict(self)

    @property
    def is_counted(self) -> bool:
        """Tell whether values counted from formats and shapes decide the claim, on whatever hardware."""
        return False

    def judge(self, evidence: Evidence) -> Judgement:
        """Judge the claim by `evidence`. Raise `NotTestableError` if the evidence can't test the claim."""
        raise NotImplementedError

    def say(self, name: str, /, **numbers: Any) -> Said:
        """Name one of the sentences of this kind of claim."""
        return Said(f"claim.{self.kind}.{name}", numbers)

    def judgement(
        self, verdict: Verdict, reason: Said, measured: Sequence[Said] = (), would_change: Said | None = None
    ) -> Judgement:
        return Judgement(
            id=self.id,
            source=self.source,
            verdict=verdict,
            reason=reason,
            measured=list(measured),
            would_change=would_change,
        )

    def by_threshold(
        self,
        threshold: Threshold,
        found: Estimate,
        measured: Sequence[Said],
        lack: Said,
        more: Said,
        has_direction: bool = False,
    ) -> Judgement:
        """Compare an interval with a threshold.

        With `has_direction`, an interval on the claimed side of 1 that misses the threshold is "in direction only".

        Args:
            lack: the reason to give if there is no interval.
            more: what would decide the claim if the interval does not.
        """
        if found.low is None or found.high is None:
            return self.judgement("inconclusive", lack, measured, more)

        def reason(name: str) -> Said:
            return Said(f"claim.threshold.{name}", threshold._asdict() | {"found": found})

        low_holds, high_holds = threshold.holds(found.low), threshold.holds(found.high)
        if low_holds and high_holds:
            return self.judgement("reproduced", reason("holds"), measured)
        if low_holds or high_holds:
            return self.judgement("inconclusive", reason("inside"), measured, more)
        if has_direction and (found.lies_above(1) if threshold.is_least else found.lies_below(1)):
            return self.judgement("in direction only", reason("direction"), measured)
        return self.judgement("not reproduced", reason("misses"), measured)


class ThresholdClaim(BaseClaim):
    """Claim that a measured value, in `unit`, is at least or at most a threshold."""

    unit: ClassVar[str] = "×"
    at_least: PositiveFloat | None = None
    at_most: PositiveFloat | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"{self.id} must have exactly one threshold, at_least or at_most.")
        return self

    @property
    def told(self) -> dict[str, Any]:
        return super().told | self.threshold._asdict()

    @property
    def threshold(self) -> Threshold:
        return Threshold(self.at_least or self.at_most or 0.0, self.at_least is not None, self.unit)


class VariantClaim(BaseClaim):
    """Hold a claim about the runs of one variant."""

    benchmark: Name
    candidate: Name

    def runs(self, evidence: Evidence) -> list[Row]:
        """Return the runs of the candidate.

        Raises:
            NotTestableError: the study has no such runs, or defines the variant differently from the claims.
        """
        check_variant(evidence.variants, evidence.study, self.benchmark, self.candidate)
        if runs := evidence.tables.runs_of(self.benchmark, self.candidate):
            return runs
        names = {"benchmark": self.benchmark, "variant": self.candidate}
        raise NotTestableError(Said("lack.runs", names), Said("remedy.variant", names))


class PairClaim(VariantClaim):
    """Hold a claim that compares a variant with a baseline, by default the study's."""

    baseline: Name | None = None

    @property
    def names(self) -> dict[str, Any]:
        return {"benchmark": self.benchmark, "candidate": self.candidate, "baseline": self.baseline or "float32"}

    @property
    def told(self) -> dict[str, Any]:
        return super().told | self.names

    def pair(self, evidence: Evidence) -> Row:
        """Return the row of the candidate and its baseline.

        The baseline "default" is float32 at the device's default precision: TF32 on an NVIDIA GPU of compute
        capability 8.0 and up (in TensorFlow since 2.4), bfloat16 products on a TPU, strict float32 elsewhere.

        Raises:
            NotTestableError: the study does not run or compare the two variants, or defines one differently from
                the claims.
        """
        study = evidence.study
        baseline = self.baseline or study.comparison.baseline
        if baseline == DEFAULT:
            is_rounded = evidence.tables.hardware()[0].multiplies(DEFAULT_POLICY)
            baseline = TF32 if is_rounded else study.comparison.baseline
        for name in (baseline, self.candidate):
            check_variant(evidence.variants, study, self.benchmark, name)
        if pair := evidence.tables.pair(self.benchmark, self.candidate, baseline):
            return pair
        names = self.names | {"baseline": baseline}
        raise NotTestableError(Said("lack.pair", names), Said("remedy.pair", names))


class SpeedClaim(PairClaim):
    """Hold a claim about the measured speed or memory of a pair."""

    def pair(self, evidence: Evidence) -> Row:
        """Return the row of the pair. Raise `NotTestableError` also if no launch measured the pair."""
        pair = super().pair(evidence)
        if pair.num_launches is None:
            raise NotTestableError(Said("lack.speed", self.names), Said("remedy.speed", {"benchmark": self.benchmark}))
        return pair


def check_variant(meant: Mapping[str, Variant], study: Study, benchmark: str, name: str) -> None:
    """Raise `NotTestableError` if `study` does not run a variant, or does not define it as the claims do (`meant`)."""
    names = {"benchmark": benchmark, "variant": name}
    if lack := study_lacks(study, benchmark, name):
        raise NotTestableError(lack, Said("remedy.variant", names))
    aside = {"benchmarks"}
    if name not in meant or study.variants[name].model_dump(exclude=aside) != meant[name].model_dump(exclude=aside):
        raise NotTestableError(Said("lack.meaning", names), Said("remedy.meaning", names))


def study_lacks(study: Study, benchmark: str, name: str) -> Said | None:
    """Say that a study does not run a variant on a benchmark; return None if it does."""
    if benchmark not in study.benchmarks:
        return Said("lack.benchmark", {"benchmark": benchmark})
    if name not in study.variants_of(benchmark):
        return Said("lack.variant", {"benchmark": benchmark, "variant": name})
    return None
