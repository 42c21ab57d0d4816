"""Judge claims by what the compilers of other hardware said of the sources' steps. Time is never judged by them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.claims.evidence import Assessment, Evidence, NotTestableError, lacking_hardware
from pipeline.claims.kinds import Claim, MemoryClaim, OutcomeClaim, RoundingClaim
from pipeline.claims.schema import Claims
from pipeline.compiled.answers import read_compiled
from pipeline.compiled.judging import (
    CompiledJudgement,
    memory_at_most,
    rounds_float32_operands,
    step_is_too_large,
)
from pipeline.compiled.programs import RECIPES
from pipeline.compiled.schema import COMPILED_FILES, CompiledTarget
from pipeline.compiled.sources import describe_recipes, recipes_digest
from pipeline.compiled.targets import TARGETS
from pipeline.machine.hardware import Hardware

MAKE_COMPILED = "Its compiler, which needs no such device: make compiled."


def read_compiled_evidence(root: Path) -> tuple[list[CompiledTarget], dict[str, dict[str, Any]]]:
    """Return what was compiled by the recipes under `root`, and these recipes by benchmark.

    Raises:
        InputError: a file is damaged.
    """
    made = read_compiled(root / COMPILED_FILES)
    if not made or not (root / RECIPES).is_file():
        return [], {}
    described = describe_recipes(root)
    digest = recipes_digest(described)
    return [target for target in made if target.sources.get(str(RECIPES)) == digest], described


def judge_compiled_memory(claim: MemoryClaim, claims: Claims, evidence: Evidence) -> Assessment:
    numbers, batch_size = _step(claim, claims, evidence)
    if batch_size != _batch_size(claim.benchmark, evidence):
        raise NotTestableError("a step at another batch was compiled", "The claim at the batch of the recipe.")
    return _by_targets(
        claim, evidence, lambda made: memory_at_most(made, claim.benchmark, numbers, batch_size, claim.at_most)
    )


def judge_compiled_outcome(claim: OutcomeClaim, claims: Claims, evidence: Evidence) -> Assessment:
    """Judge that runs do or don't fit into the memory. How else they end, only running them tells."""
    if claim.outcome not in ("completed", "out_of_memory"):
        raise NotTestableError("a compiler does not tell how runs end", "Runs on such hardware.")
    numbers, batch_size = _step(claim, claims, evidence)
    too_large = claim.outcome == "out_of_memory"
    return _by_targets(
        claim,
        evidence,
        lambda made: step_is_too_large(made, claim.benchmark, numbers, batch_size, too_large=too_large),
    )


def judge_compiled_rounding(claim: RoundingClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    batch_size = _batch_size(claim.benchmark, evidence)
    return _by_targets(claim, evidence, lambda made: rounds_float32_operands(made, claim.benchmark, batch_size))


def _by_targets(
    claim: Claim, evidence: Evidence, judge: Callable[[Sequence[CompiledTarget]], CompiledJudgement | None]
) -> Assessment:
    """Judge by the targets that are what the claim needs.

    Raises:
        NotTestableError: nothing was compiled for them.
    """
    chosen = [made for made in evidence.compiled if not lacking_hardware(claim.needs, _hardware(made))]
    found = judge(chosen)
    if found is None:
        wanted = lacking_hardware(claim.needs, Hardware("cpu", "")) or "any accelerator"
        raise NotTestableError(f"nothing that tells was compiled for {wanted}", MAKE_COMPILED)
    return Assessment(found.verdict, found.reason, found.found)


def _hardware(made: CompiledTarget) -> Hardware:
    """Return the class of hardware that a program was compiled for."""
    gpu = TARGETS[made.target].gpu
    if gpu is None:
        return Hardware("tpu", made.title, memory_bytes=made.memory_bytes)
    major, minor = gpu.compute_capability
    return Hardware("nvidia_gpu", made.title, major + minor / 10, made.memory_bytes)


def _step(claim: MemoryClaim | OutcomeClaim, claims: Claims, evidence: Evidence) -> tuple[str, int]:
    """Return the numbers and the batch size of the step that the claim's variant trains by."""
    variant = claims.variants[claim.candidate]
    if not variant.model_copy(update={"tf32": False, "jit_compile": False}).is_plain("tensorflow"):
        raise NotTestableError(f"no step of {claim.candidate} is compiled", "A variant that differs in policy alone.")
    by_default = variant.policy == "float32" and variant.tf32
    numbers = "float32_default" if by_default else variant.policy
    return numbers, variant.batch_multiplier * _batch_size(claim.benchmark, evidence)


def _batch_size(benchmark: str, evidence: Evidence) -> int:
    if benchmark not in evidence.recipes:
        raise NotTestableError(f"no step of {benchmark} is compiled", MAKE_COMPILED)
    return int(evidence.recipes[benchmark]["batch_size"])
