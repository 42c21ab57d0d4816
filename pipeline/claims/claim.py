"""Say what every claim has: its words, what it needs, and its judges."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from pipeline.claims.acceleration import device_of
from pipeline.claims.evidence import Evidence
from pipeline.comparison.schema import Pair
from pipeline.machine.hardware import Hardware
from pipeline.numbers import listed
from pipeline.numerics.facts import Value
from pipeline.study.configuration import Name, PositiveFloat, Section
from pipeline.study.schema import Study

DEFAULT = "default"  # as a baseline: float32 as the device computes it where nobody asks for more
# Where the device computes float32 with less precision unless it is asked for more: the variant that does.
DEFAULTS = {"nvidia_gpu": "tf32", "tpu": "float32_default"}
HARDWARE = {
    "cpu": "a CPU",
    "intel_cpu": "an Intel CPU",
    "nvidia_gpu": "an NVIDIA GPU",
    "tpu": "a TPU",
    "intel_gpu": "an Intel GPU",
}


def profile_command(profile: str) -> str:
    """Return the command that composes and runs a profile of this project."""
    return f"make repro PROFILE={profile}" + " ENGINE=cuda" * (profile == "paper")


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
# It ran on the hardware that the claim is about; or that hardware's compiler says so; or it follows from formats and
# shapes, by counting.
EvidenceKind = Literal["measured", "compiled", "counted"]


class Assessment(NamedTuple):
    """Hold a judge's verdict, its reason, and what was found in words."""

    verdict: Verdict
    reason: str
    measured: str | None


class NotTestable(NamedTuple):
    """Say why the evidence has nothing to say about a claim, and what would make it testable.

    The verdict is "not this recipe" where the evidence is of another recipe than the source's.
    """

    reason: str
    remedy: str
    verdict: Verdict = "not testable here"


class Judge(NamedTuple):
    """Judge a claim by one kind of evidence. `more` is what would decide where that kind leaves it open.

    `ask` takes an `Evidence`; one that asks compilers reads nothing of it but `compiled`, `recipes` and `variants`.
    """

    ask: Callable[[Any], Assessment | NotTestable]
    more: str


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
    profile: Literal["quick", "evening", "paper", "tpu"] | None = None
    recipe: dict[str, Value | None] = Field(default_factory=dict, max_length=20)

    def lacking(self, hardware: Hardware) -> str:
        """Name the hardware that the claim is about where this is none; empty where it is."""
        if self.hardware == "anything":
            return ""
        wanted, here = HARDWARE[self.hardware], hardware.kind == self.hardware
        if self.hardware == "intel_cpu":
            here = hardware.kind == "cpu" and "intel" in hardware.name.lower()
        capability, memory = hardware.compute_capability or 0, hardware.memory_bytes
        if self.min_compute_capability:
            wanted += f" of compute capability ≥ {self.min_compute_capability:.1f}"
            here = here and capability >= self.min_compute_capability
        if self.max_compute_capability:
            wanted += f" of compute capability ≤ {self.max_compute_capability:.1f}"
            here = here and 0 < capability <= self.max_compute_capability
        limits = {"at least": self.min_memory_gb, "at most": self.max_memory_gb}
        if sizes := [f"{word} {size:.0f} GB" for word, size in limits.items() if size]:
            wanted += f" with {listed(sizes)}"
            low, high = (self.min_memory_gb or 0.0) * 1e9, (self.max_memory_gb or math.inf) * 1e9
            here = here and memory is not None and low <= memory <= high
        return "" if here else wanted


class BaseClaim(Section):
    """A source's claim, or a finding of ours beside one.

    `statement` is the sense of the source's sentence in our words; of a finding, what we expect, and `beside` is what
    the source says there. `short` is for the rows of the report that are not folded.
    """

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
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        """Return the judges by the kind of evidence they ask, in that order: the first that can decide does."""
        return {}


class VariantClaim(BaseClaim):
    """A claim about the runs of one variant."""

    benchmark: Name
    candidate: Name

    def variants_in(self, _study: Study, _hardware: Hardware) -> list[str]:
        """Name the variants that a study has to run, the baseline first where there is one."""
        return [self.candidate]


class PairClaim(VariantClaim):
    """A claim about a variant beside a baseline, by default the study's."""

    def variants_in(self, study: Study, hardware: Hardware) -> list[str]:
        """Name the variants. The default is float32 as `hardware` computes it where nobody asks for more.

        TensorFlow, since 2.4, multiplies in TF32 where the GPU has it; a TPU multiplies in bfloat16.
        """
        baseline = getattr(self, "baseline", None) or study.comparison.baseline
        if baseline == DEFAULT:
            is_wide = hardware.kind != "tpu" and device_of(hardware).tf32 != "in hardware"
            baseline = study.comparison.baseline if is_wide else DEFAULTS[hardware.kind]
        return [baseline, self.candidate]

    @property
    def beside_words(self) -> str:
        """Name both variants, as in "mixed_float16 beside float32 in mnist_dense"."""
        baseline = getattr(self, "baseline", None) or "float32"
        default = "float32 as the device computes it by default"
        return f"{self.candidate} beside {default if baseline == DEFAULT else baseline} in {self.benchmark}"

    def pair(self, evidence: Evidence) -> Pair:
        """Return the pair, which guards have found to be there."""
        names = (self.benchmark, *self.variants_in(evidence.study, evidence.hardware))
        pairs = evidence.comparison.pairs
        return next(pair for pair in pairs if (pair.benchmark, pair.baseline, pair.candidate) == names)


class UntestedClaim(BaseClaim):
    """Something that no study here tests, why, and what would make it testable."""

    kind: Literal["untested"]
    reason: str
    testable_by: str
