"""Find among the results those that a claim is about."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.claims.result_files import Verdict
from pipeline.claims.schema import AccuracyClaim, Claims, MemoryClaim, OutcomeClaim, SpeedupClaim, ValueClaim
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
    """The evidence has nothing to say about a claim; the message is the reason."""


class Assessment(NamedTuple):
    verdict: Verdict
    reason: str
    measured: str | None


def check_variant(claims: Claims, study: Study, benchmark: str, name: str) -> None:
    """Raise `NotTestableError` where the study does not run `name` on `benchmark`, or means something else by it."""
    if benchmark not in study.benchmarks or name not in study.variants_of(benchmark):
        raise NotTestableError(f"the study does not run {name} on {benchmark}")
    # JAX compiles every step with XLA: there the choice is none.
    aside = {"benchmarks", "jit_compile"} if study.engine == "jax" else {"benchmarks"}
    if study.variants[name].model_dump(exclude=aside) != claims.variants[name].model_dump(exclude=aside):
        raise NotTestableError(f"by {name} this study means something else than the claim")


def find_pair(claim: SpeedupClaim | AccuracyClaim | MemoryClaim, claims: Claims, evidence: Evidence) -> Pair:
    baseline = getattr(claim, "baseline", None) or evidence.study.comparison.baseline
    for name in (baseline, claim.candidate):
        check_variant(claims, evidence.study, claim.benchmark, name)
    pair = evidence.comparison.find(claim.benchmark, claim.candidate, baseline)
    if pair is None:
        raise NotTestableError(f"the study does not compare {claim.candidate} with {baseline}")
    return pair


def find_variant(claim: ValueClaim | OutcomeClaim, claims: Claims, evidence: Evidence) -> VariantStatistics:
    check_variant(claims, evidence.study, claim.benchmark, claim.candidate)
    return evidence.comparison.variant(claim.benchmark, claim.candidate)
