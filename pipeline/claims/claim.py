"""Define the parts of a claim: wording, conditions, threshold, and the judgement with the verdict."""

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

DEFAULT = "default"  # the name of a claim's baseline that means float32 at the device's default precision
TF32 = "tf32"  # the variant that "default" means on devices whose default is less precise than float32
Verdict = Literal[
    "reproduced", "in direction only", "not reproduced", "inconclusive", "not this recipe", "not testable here"
]
Answer = Literal["found", "not found", "open"]
# A finding is an experiment of our own, which reproduces no source. So its verdict is turned into an answer.
ANSWERS: Mapping[str, Answer] = {
    "reproduced": "found",
    "in direction only": "not found",
    "not reproduced": "not found",
    "inconclusive": "open",
    "not this recipe": "open",
    "not testable here": "open",
}
# "measured": on hardware that the claim is about. "counted": from number formats, array shapes and Keras's rules.
EvidenceKind = Literal["measured", "counted"]


class Evidence(NamedTuple):
    """Hold the results by which claims are judged.

    `numerics` is the content of results/numerics.json, or None if there is no such file. `variants` holds the variants
    as claims.yaml defines them.
    """

    study: Study
    tables: Tables
    numerics: Mapping[str, Any] | None
    variants: Mapping[str, Variant] = {}


class Judgement(Untrusted):
    """Hold the verdict on a source's claim, or the answer to a finding (`is_finding`).

    `measured` holds sentences on the results. `would_change` is a sentence on the results that would decide the claim.
    `evidence` is the kind of evidence behind the verdict, or None if the study can't test the claim.
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
    """Report that the evidence can't test a claim, with the reason and a remedy."""

    def __init__(self, reason: Said, remedy: Said) -> None:
        super().__init__(reason, remedy)
        self.reason, self.remedy = reason, remedy


class Needs(Section):
    """Hold the conditions under which a claim can be tested: the hardware, and the recipe of the source's training.

    Memory is the accelerator's, in GB (10⁹ bytes). `recipe` maps key paths of a benchmark, such as `optimizer.name`, to
    the source's values. If a study on the right hardware has other values, the verdict is "not this recipe". `profile`
    is the cheapest profile in conf/profile with this recipe and the claim's variants.
    """

    hardware: Literal["anything", "cpu", "intel_cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    min_compute_capability: PositiveFloat | None = None
    max_compute_capability: PositiveFloat | None = None
    min_memory_gb: PositiveFloat | None = None
    max_memory_gb: PositiveFloat | None = None
    profile: Literal["quick", "gpu", "evening", "float8", "resnet9", "paper"] | None = None
    recipe: dict[str, Value | None] = Field(default_factory=dict)

    def fits(self, hardware: Hardware) -> bool:
        """Return True if the claim is about this hardware."""
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
        """Return the conditions on hardware, as values that fill in a sentence."""
        return self.model_dump(exclude={"profile", "recipe"})


def _lies(value: float | None, low: float | None, high: float | None) -> bool:
    """Return True if `value` lies between `low` and `high`. Limits of None allow every value.

    An unknown value (None) passes only if there is no limit at all.
    """
    return low is high is None or (value is not None and (low or 0.0) <= value <= (high or math.inf))


class Threshold(NamedTuple):
    """Hold the smallest (`is_least`) or the largest value that a claim allows."""

    limit: float
    is_least: bool
    unit: str = "×"

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit


class BaseClaim(Section):
    """Hold a source's claim, or a finding, which is an experiment of our own.

    The `statement` of a claim restates the source's sentence in our words. The `statement` of a finding is our
    expectation, and `beside` is the source's position on the same question. Reports show `short` in tables and
    headings, or `statement` if `short` is missing. Each kind of claim has its sentences under `claim.<kind>` in
    sentences.yaml.
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
        """Return the sentence on the test of the claim and on the result that confirms the claim, or None if untested.

        The values that the sentence may use are in `told`.
        """
        return self.say("asked", **self.told)

    @property
    def told(self) -> dict[str, Any]:
        """Return the values that the sentence of `asked` may use: the claim's fields and, in subclasses, others."""
        return dict(self)

    @property
    def is_counted(self) -> bool:
        """Return True if the claim is decided by number formats, array shapes and Keras's rules, on any hardware."""
        return False

    def judge(self, evidence: Evidence) -> Judgement:
        """Judge the claim by `evidence`. Raise `NotTestableError` if the evidence can't test the claim."""
        raise NotImplementedError

    def say(self, name: str, /, **numbers: Any) -> Said:
        """Return the sentence `claim.<kind>.<name>`, with the values that fill it in."""
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
        """Judge the claim by the interval of a measured value.

        If every value in the interval meets the threshold, the claim is reproduced. If no value does, the claim is not
        reproduced or, with `has_direction` and an interval on the claimed side of 1, "in direction only". If only some
        values meet the threshold, or without an interval, the claim is inconclusive.

        Args:
            found: the measured value and its interval.
            measured: sentences on the results.
            lack: the reason for the verdict if there is no interval.
            more: the sentence on the results that would decide an inconclusive claim.
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
        """Return the candidate's rows of `runs.csv`.

        Raises:
            NotTestableError: the study has no run of the candidate, or defines the candidate differently from
                claims.yaml.
        """
        check_variant(evidence.variants, evidence.study, self.benchmark, self.candidate)
        if runs := evidence.tables.runs_of(self.benchmark, self.candidate):
            return runs
        names = {"benchmark": self.benchmark, "variant": self.candidate}
        raise NotTestableError(Said("lack.runs", names), Said("remedy.variant", names))


class PairClaim(VariantClaim):
    """Hold a claim that compares a variant (`candidate`) with `baseline`, by default the study's baseline."""

    baseline: Name | None = None

    @property
    def names(self) -> dict[str, Any]:
        return {"benchmark": self.benchmark, "candidate": self.candidate, "baseline": self.baseline or "float32"}

    @property
    def told(self) -> dict[str, Any]:
        return super().told | self.names

    def pair(self, evidence: Evidence) -> Row:
        """Return the row of `pairs.csv` that compares the candidate with the baseline.

        The baseline "default" stands for the variant `tf32` if the device rounds the factors of float32 products by
        default: to TF32 on an NVIDIA GPU of compute capability 8.0 or more, or to bfloat16 on a TPU. On other devices,
        "default" stands for the study's baseline.

        Raises:
            NotTestableError: the study does not run or compare the two variants, or defines a variant differently from
                claims.yaml.
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
        """Return the row of the pair.

        Raises:
            NotTestableError: as in `PairClaim.pair`, or because speed was not measured.
        """
        pair = super().pair(evidence)
        if pair.num_launches is None:
            raise NotTestableError(Said("lack.speed", self.names), Said("remedy.speed", {"benchmark": self.benchmark}))
        return pair


def check_variant(meant: Mapping[str, Variant], study: Study, benchmark: str, name: str) -> None:
    """Check that `study` runs the variant `name` on `benchmark`, and defines the variant as claims.yaml does (`meant`).

    Raises:
        NotTestableError: the study lacks the variant, or the two definitions differ.
    """
    names = {"benchmark": benchmark, "variant": name}
    if lack := study_lacks(study, benchmark, name):
        raise NotTestableError(lack, Said("remedy.variant", names))
    aside = {"benchmarks"}
    if name not in meant or study.variants[name].model_dump(exclude=aside) != meant[name].model_dump(exclude=aside):
        raise NotTestableError(Said("lack.meaning", names), Said("remedy.meaning", names))


def study_lacks(study: Study, benchmark: str, name: str) -> Said | None:
    """Return a sentence if `study` does not run the variant `name` on `benchmark`, otherwise None."""
    if benchmark not in study.benchmarks:
        return Said("lack.benchmark", {"benchmark": benchmark})
    if name not in study.variants_of(benchmark):
        return Said("lack.variant", {"benchmark": benchmark, "variant": name})
    return None
