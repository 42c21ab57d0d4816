"""Find among the results those that a claim is about."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.claims.acceleration import device_of
from pipeline.claims.kinds import DEFAULT, AccuracyClaim, MemoryClaim, Needs, OutcomeClaim, SpeedupClaim, ValueClaim
from pipeline.claims.result_files import Verdict
from pipeline.claims.schema import Claims
from pipeline.comparison.schema import Comparison, Pair, VariantStatistics
from pipeline.comparison.vocabulary import listed
from pipeline.compiled.schema import CompiledTarget
from pipeline.machine.hardware import Hardware
from pipeline.study.schema import Study


class Evidence(NamedTuple):
    """The results that claims are judged by.

    `numerics` and `ceilings` are the contents of the files of those names. `compiled` is what compilers of other
    hardware said, and `recipes` are those that they compiled, by benchmark.
    """

    study: Study
    comparison: Comparison
    numerics: Mapping[str, Any]
    ceilings: Mapping[str, Any]
    hardware: Hardware
    compiled: Sequence[CompiledTarget] = ()
    recipes: Mapping[str, Mapping[str, Any]] = {}


class NotTestableError(Exception):
    """The evidence has nothing to say about a claim: the reason, and what would make it testable."""

    def __init__(self, reason: str, testable_by: str) -> None:
        super().__init__(reason)
        self.testable_by = testable_by


class Assessment(NamedTuple):
    verdict: Verdict
    reason: str
    measured: str | None


def lacking_hardware(needs: Needs, hardware: Hardware) -> str:
    """Name the hardware that a claim is about where this is none; empty where it is."""
    if needs.hardware == "anything":
        return ""
    names = {"cpu": "a CPU", "nvidia_gpu": "an NVIDIA GPU", "tpu": "a TPU", "intel_gpu": "an Intel GPU"}
    wanted, here = names[needs.hardware], hardware.kind == needs.hardware
    capability, memory = hardware.compute_capability or 0, hardware.memory_bytes
    if needs.min_compute_capability:
        wanted += f" of compute capability ≥ {needs.min_compute_capability:.1f}"
        here = here and capability >= needs.min_compute_capability
    if needs.max_compute_capability:
        wanted += f" of compute capability ≤ {needs.max_compute_capability:.1f}"
        here = here and 0 < capability <= needs.max_compute_capability
    if sizes := [
        *([f"at least {needs.min_memory_gb:.0f} GB"] if needs.min_memory_gb else []),
        *([f"at most {needs.max_memory_gb:.0f} GB"] if needs.max_memory_gb else []),
    ]:
        wanted += f" with {listed(sizes)}"
        limits = (needs.min_memory_gb or 0.0) * 1e9, (needs.max_memory_gb or math.inf) * 1e9
        here = here and memory is not None and limits[0] <= memory <= limits[1]
    if needs.name:
        wanted += f", a {needs.name}"
        here = here and needs.name.lower() in hardware.name.lower()
    return "" if here else wanted


def check_variant(claims: Claims, study: Study, benchmark: str, name: str) -> None:
    """Raise `NotTestableError` where the study does not run `name` on `benchmark`, or means something else by it."""
    if benchmark not in study.benchmarks or name not in study.variants_of(benchmark):
        raise NotTestableError(
            f"the study does not run {name} on {benchmark}", f"A study that runs {name} on {benchmark}."
        )
    # JAX compiles every step with XLA: there the choice is none.
    aside = {"benchmarks", "jit_compile"} if study.engine == "jax" else {"benchmarks"}
    meant = claims.variants.get(name)
    if meant is None or study.variants[name].model_dump(exclude=aside) != meant.model_dump(exclude=aside):
        raise NotTestableError(
            f"by {name} this study means something else than the claim",
            f"A study whose {name} is that of the variants in the file of claims.",
        )


# Where the device computes float32 with less precision unless it is asked for more: the variant that does.
DEFAULTS = {"nvidia_gpu": "tf32", "tpu": "float32_default"}


def default_baseline(hardware: Hardware, study: Study) -> str:
    """Name the variant that computes float32 as `hardware` does where nobody asks for more.

    TensorFlow, since 2.4, multiplies in TF32 where the GPU has it; a TPU multiplies in bfloat16.
    """
    if hardware.kind == "tpu" or device_of(hardware).tf32 == "in hardware":
        return DEFAULTS[hardware.kind]
    return study.comparison.baseline


def find_pair(claim: SpeedupClaim | AccuracyClaim | MemoryClaim, claims: Claims, evidence: Evidence) -> Pair:
    baseline = getattr(claim, "baseline", None) or evidence.study.comparison.baseline
    if baseline == DEFAULT:
        baseline = default_baseline(evidence.hardware, evidence.study)
    for name in (baseline, claim.candidate):
        check_variant(claims, evidence.study, claim.benchmark, name)
    pair = evidence.comparison.find(claim.benchmark, claim.candidate, baseline)
    if pair is None:
        raise NotTestableError(
            f"the study does not compare {claim.candidate} with {baseline}",
            f"A study that names {baseline} and {claim.candidate} as a further pair.",
        )
    return pair


def find_variant(claim: ValueClaim | OutcomeClaim, claims: Claims, evidence: Evidence) -> VariantStatistics:
    check_variant(claims, evidence.study, claim.benchmark, claim.candidate)
    return evidence.comparison.variant(claim.benchmark, claim.candidate)
