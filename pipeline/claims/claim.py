"""Say what every claim has: its words, what it needs, its threshold, and its judges."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from pipeline.claims.evidence import Evidence
from pipeline.comparison.schema import Pair, VariantStatistics
from pipeline.machine.acceleration import device_of
from pipeline.machine.hardware import Hardware
from pipeline.numbers import listed, number
from pipeline.numerics.facts import Value
from pipeline.study.configuration import Name, PositiveFloat, Section
from pipeline.study.schema import Study
from pipeline.study.variant import Variant

DEFAULT = "default"  # as a baseline: float32 as the device computes it where nobody asks for more
# Where the device computes float32 with less precision unless it is asked for more: the variant that does.
DEFAULTS = {"nvidia_gpu": "tf32", "tpu": "tf32"}
HARDWARE = {
    "cpu": "a CPU",
    "intel_cpu": "an Intel CPU",
    "nvidia_gpu": "an NVIDIA GPU",
    "tpu": "a TPU",
    "intel_gpu": "an Intel GPU",
}


def profile_command(profile: str, by_xla: bool = False) -> str:
    """Return the command that composes and runs a profile of this project; XLA is a choice on TensorFlow alone."""
    return f"make repro PROFILE={profile}" + " ENGINE=cuda" * by_xla


Verdict = Literal[
    "reproduced", "in direction only", "not reproduced", "inconclusive", "not this recipe", "not testable here"
]
Answer = Literal["found", "not found", "open"]
# An experiment of ours has nothing to reproduce: what each verdict is called there.
ANSWERS: Mapping[str, Answer] = {
    "reproduced": "found",
    "in direction only": "not found",
    "not reproduced": "not found",
    "inconclusive": "open",
    "not this recipe": "open",
    "not testable here": "open",
}
# It ran on the hardware that the claim is about; or it follows from formats and shapes, by counting.
EvidenceKind = Literal["measured", "counted"]


class Assessment(NamedTuple):
    """Hold a verdict, its reason, and what was found in words.

    `evidence` is the kind that it rests on, None where it decides nothing; `would_change` what would decide instead.
    A judge gives neither, but for a `would_change` of its own.
    """

    verdict: Verdict
    reason: str
    measured: str | None = None
    evidence: EvidenceKind | None = None
    would_change: str | None = None


class NotTestableError(Exception):
    """Say, in two arguments, why the evidence has nothing to say about a claim, and what would make it testable."""


class Needs(Section):
    """The conditions of a claim: a kind of hardware, and the recipe that the source trained by.

    `recipe` maps key paths of a benchmark to the source's values; a study with others says "not this recipe".
    `profile` is that of this project which has the recipe and the variants, and costs least.
    """

    hardware: Literal["anything", "cpu", "intel_cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    min_compute_capability: PositiveFloat | None = None
    max_compute_capability: PositiveFloat | None = None
    min_memory_gb: PositiveFloat | None = None
    max_memory_gb: PositiveFloat | None = None
    profile: Literal["quick", "evening", "float8", "resnet9", "paper"] | None = None
    recipe: dict[str, Value | None] = Field(default_factory=dict, max_length=20)

    @field_validator("profile", mode="before")
    @classmethod
    def _as_published_before(cls, value: Any) -> Any:
        """Read claims of published studies: `tpu` was a profile of its own."""
        return "paper" if value == "tpu" else value

    def lacking(self, hardware: Hardware) -> str:
        """Name the hardware that the claim is about where this is none; empty where it is."""
        if self.hardware == "anything":
            return ""
        wanted, here = HARDWARE[self.hardware], hardware.kind == self.hardware
        if self.hardware == "intel_cpu":
            here = hardware.kind == "cpu" and "intel" in hardware.name.lower()
        capabilities = {"≥": self.min_compute_capability, "≤": self.max_compute_capability}
        sizes = {"at least": self.min_memory_gb, "at most": self.max_memory_gb}
        wanted += "".join(f" of compute capability {sign} {limit:.1f}" for sign, limit in capabilities.items() if limit)
        if told := [f"{word} {limit:.0f} GB" for word, limit in sizes.items() if limit]:
            wanted += f" with {listed(told)}"
        memory_gb = hardware.memory_bytes and hardware.memory_bytes / 1e9
        here = here and _lies(hardware.compute_capability, *capabilities.values()) and _lies(memory_gb, *sizes.values())
        return "" if here else wanted


def _lies(value: float | None, low: float | None, high: float | None) -> bool:
    """Tell whether a value lies between limits; where there are any, an unknown one does not."""
    return low is high is None or (value is not None and (low or 0.0) <= value <= (high or math.inf))


class BaseClaim(Section):
    """A source's claim, or a finding of ours beside one.

    `statement` is the sense of the source's sentence in our words; of a finding, what we expect, and `beside` is what
    the source says there. `short` is for the rows of the report that are not folded. `more` is what would decide where
    a judge leaves it open, unless that says so itself.
    """

    more: ClassVar[str] = ""
    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    source: str
    statement: str
    short: str | None = None
    beside: str | None = None
    needs: Needs

    @property
    def asked(self) -> tuple[str, str]:
        """Say what is measured or counted here for the claim, and the result by which it holds."""
        return "", ""

    @property
    def evidence(self) -> EvidenceKind:
        """Return the kind of evidence that decides."""
        return "measured"

    def judge(self, evidence: Evidence) -> Assessment:
        """Return the verdict by `evidence`. Raise `NotTestableError` where that says nothing."""
        raise NotImplementedError


class UntestedClaim(BaseClaim):
    """Something that no study here tests, why, and what would make it testable."""

    kind: Literal["untested"]
    reason: str
    testable_by: str


class Threshold(NamedTuple):
    """Hold the least or the most that something measured is said to be."""

    limit: float
    is_least: bool
    unit: str = "×"

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit

    @property
    def words(self) -> str:
        """Say what holds, as in "at least 2×"."""
        return f"at {'least' if self.is_least else 'most'} {number(self.limit)}{self.unit}"

    def judge(
        self, low: float | None, high: float | None, measured: str, lack: str = "", has_direction: bool = False
    ) -> Assessment:
        """Compare an interval with the threshold; `lack` says why there is none.

        A ratio that has a direction and misses the threshold, but lies on the right side of 1, has the direction alone.
        """
        if low is None or high is None:
            return Assessment("inconclusive", lack, measured)
        limit, low_holds, high_holds = f"{number(self.limit)}{self.unit}", self.holds(low), self.holds(high)
        what = f"{number(round(low, 4))}{self.unit}" if low == high else "the whole interval"
        if low_holds and high_holds:
            return Assessment("reproduced", f"{what} is {self.words}", measured)
        if low_holds or high_holds:
            return Assessment("inconclusive", f"the interval reaches from below {limit} to above it", measured)
        right, wrong = ("above", "below") if self.is_least else ("below", "above")
        if has_direction and (low > 1 if self.is_least else high < 1):
            return Assessment("in direction only", f"{what} lies {right} 1 and {wrong} {limit}", measured)
        return Assessment("not reproduced", f"{what} lies {wrong} {limit}", measured)


class ThresholdClaim(BaseClaim):
    """Something measured, in `unit`, is at least or at most so much."""

    unit: ClassVar[str] = "×"
    at_least: PositiveFloat | None = None
    at_most: PositiveFloat | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"{self.id} must have one threshold, at_least or at_most.")
        return self

    @property
    def threshold(self) -> Threshold:
        return Threshold(self.at_least or self.at_most or 0.0, self.at_least is not None, self.unit)


class VariantClaim(BaseClaim):
    """A claim about the runs of one variant."""

    benchmark: Name
    candidate: Name

    def statistics(self, evidence: Evidence) -> VariantStatistics:
        """Return those of the candidate.

        Raises:
            NotTestableError: the study does not run it, or means something else by its name.
        """
        check_variant(evidence.variants, evidence.study, self.benchmark, self.candidate)
        return evidence.comparison.variant(self.benchmark, self.candidate)


class PairClaim(VariantClaim):
    """A claim about a variant beside a baseline, by default the study's."""

    baseline: Name | None = None

    @property
    def beside_words(self) -> str:
        """Name both variants, as in "mixed_float16 in mnist_dense, beside float32"."""
        baseline = "float32 as the device computes it by default" if self.baseline == DEFAULT else self.baseline
        return f"{self.candidate} in {self.benchmark}, beside {baseline or 'float32'}"

    def pair(self, evidence: Evidence) -> Pair:
        """Return the candidate beside the baseline; the default is float32 where nobody asks the device for more.

        TensorFlow, since 2.4, multiplies in TF32 where the GPU has it; a TPU multiplies in bfloat16.

        Raises:
            NotTestableError: the study does not run both, or compare them, or means something else by a name.
        """
        baseline, hardware = self.baseline or evidence.study.comparison.baseline, evidence.hardware
        if baseline == DEFAULT:
            is_wide = hardware.kind != "tpu" and device_of(hardware).tf32 != "in hardware"
            baseline = evidence.study.comparison.baseline if is_wide else DEFAULTS[hardware.kind]
        for name in (baseline, self.candidate):
            check_variant(evidence.variants, evidence.study, self.benchmark, name)
        if pair := evidence.comparison.find(self.benchmark, self.candidate, baseline):
            return pair
        raise NotTestableError(
            f"the study does not compare {self.candidate} with {baseline}",
            f"A study that names {baseline} and {self.candidate} as a further pair.",
        )


def check_variant(meant: Mapping[str, Variant], study: Study, benchmark: str, name: str) -> None:
    """Raise `NotTestableError` where `study` does not run a variant, or means else by its name than is `meant`."""
    if remedy := study_to_run(study, benchmark, name):
        lacking = f"run {name} on {benchmark}" if benchmark in study.benchmarks else f"train {benchmark}"
        raise NotTestableError(f"the study does not {lacking}", remedy)
    aside = {"benchmarks"}
    if name not in meant or study.variants[name].model_dump(exclude=aside) != meant[name].model_dump(exclude=aside):
        raise NotTestableError(
            f"by {name} this study means something else than the claim",
            f"A study whose {name} is that of the variants in the file of claims.",
        )


def study_to_run(study: Study, benchmark: str, name: str) -> str:
    """Say which study runs a variant on a benchmark, where this one does not."""
    runs = benchmark in study.benchmarks and name in study.variants_of(benchmark)
    return "" if runs else f"A study that runs {name} on {benchmark}."
