"""Find among the results those that a claim is about."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.claims.acceleration import device_of
from pipeline.claims.kinds import DEFAULT, AccuracyClaim, MemoryClaim, OutcomeClaim, SpeedupClaim, ValueClaim
from pipeline.claims.result_files import Verdict
from pipeline.claims.schema import Claims
from pipeline.comparison.schema import Comparison, Pair, VariantStatistics
from pipeline.machine.hardware import Hardware
from pipeline.study.schema import Study


class Evidence(NamedTuple):
    """The results that claims are judged by; `numerics` and `ceilings` are the contents of the files of those names."""

    study: Study
    comparison: Comparison
    numerics: Mapping[str, Any]
    ceilings: Mapping[str, Any]
    hardware: Hardware


class NotTestableError(Exception):
    """The evidence has nothing to say about a claim: the reason, and what would make it testable."""

    def __init__(self, reason: str, testable_by: str) -> None:
        super().__init__(reason)
        self.testable_by = testable_by


class Assessment(NamedTuple):
    verdict: Verdict
    reason: str
    measured: str | None


def check_variant(claims: Claims, study: Study, benchmark: str, name: str) -> None:
    """Raise `NotTestableError` where the study does not run `name` on `benchmark`, or means something else by it."""
    if benchmark not in study.benchmarks or name not in study.variants_of(benchmark):
        raise NotTestableError(
            f"the study does not run {name} on {benchmark}", f"A study that runs {name} on {benchmark}."
        )
    # JAX compiles every step with XLA: there the choice is none.
    aside = {"benchmarks", "jit_compile"} if study.engine == "jax" else {"benchmarks"}
    if study.variants[name].model_dump(exclude=aside) != claims.variants[name].model_dump(exclude=aside):
        raise NotTestableError(
            f"by {name} this study means something else than the claim",
            f"A study whose {name} is that of the variants in the file of claims.",
        )


def default_baseline(hardware: Hardware, study: Study) -> str:
    """Name the variant that computes float32 as `hardware` does where nobody asks for more.

    TensorFlow, since 2.4, multiplies in TF32 where the GPU has it; a TPU multiplies in bfloat16.
    """
    if hardware.kind == "tpu":
        return "float32_default"
    return "tf32" if device_of(hardware).tf32 == "in hardware" else study.comparison.baseline


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
