"""Judge claims by what the compilers of other hardware said of the sources' steps. Time is never judged by them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipeline.claims.evidence import Assessment, Evidence, NotTestableError, lacking_hardware
from pipeline.claims.kinds import Claim, MemoryClaim, OutcomeClaim, RoundingClaim
from pipeline.claims.result_files import Verdict
from pipeline.claims.schema import Claims
from pipeline.compiled.answers import (
    NUMBERS,
    OperationShare,
    memory_ratio,
    read_compiled,
    rounded_to_16_bits,
    step_fits,
)
from pipeline.compiled.programs import RECIPES
from pipeline.compiled.schema import COMPILED_FILES, CompiledTarget
from pipeline.compiled.sources import describe_recipes, recipes_digest
from pipeline.compiled.targets import TARGETS
from pipeline.machine.hardware import Hardware

T = TypeVar("T")
KEEPS_MORE = "compiled by XLA; the source ran TensorFlow without it, which is another program and keeps more alive"
SAME_COMPILER = "compiled by XLA, as every program for a TPU is"
LEANER = "as compiled here it fits, and the source's program may not have"
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
    return _of_its_targets(
        claim, evidence, lambda made: memory_at_most(made, claim.benchmark, numbers, batch_size, claim.at_most)
    )


def judge_compiled_outcome(claim: OutcomeClaim, claims: Claims, evidence: Evidence) -> Assessment:
    """Judge that runs do or don't fit into the memory. How else they end, only running them tells."""
    if claim.outcome not in ("completed", "out_of_memory"):
        raise NotTestableError("a compiler does not tell how runs end", "Runs on such hardware.")
    numbers, batch_size = _step(claim, claims, evidence)
    too_large = claim.outcome == "out_of_memory"
    return _of_its_targets(
        claim,
        evidence,
        lambda made: step_is_too_large(made, claim.benchmark, numbers, batch_size, too_large=too_large),
    )


def judge_compiled_rounding(claim: RoundingClaim, _claims: Claims, evidence: Evidence) -> Assessment:
    batch_size = _batch_size(claim.benchmark, evidence)
    return _of_its_targets(claim, evidence, lambda made: rounds_float32_operands(made, claim.benchmark, batch_size))


def memory_at_most(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, batch_size: int, at_most: float
) -> Assessment | None:
    """Judge whether a step takes at most so many times the memory of strict float32, on every target."""

    def verdict(ratio: float) -> Verdict:
        if ratio <= at_most:
            return "reproduced"
        return "in direction only" if ratio < 1 else "not reproduced"

    ratios = _by_target(compiled, lambda made: memory_ratio(made, benchmark, numbers, batch_size))
    told = {title: f"{ratio:.2f}×" for title, ratio in ratios.items()}
    what = f"a step takes at most {at_most:g} times the memory of strict float32"
    return _judge(ratios, verdict, what, told, KEEPS_MORE)


def step_is_too_large(
    compiled: Sequence[CompiledTarget], benchmark: str, numbers: str, batch_size: int, *, too_large: bool
) -> Assessment | None:
    """Judge whether a step is too large for the memory of every target; or, where it is said to fit, the contrary.

    A step compiled by XLA that does not fit tells that one which keeps more alive would not either. One that fits tells
    only where XLA compiled the source's step too: for a TPU.
    """
    fits = _by_target(compiled, lambda made: step_fits(made, benchmark, numbers, batch_size))
    told = {title: "fits" if each else "does not fit" for title, each in fits.items()}
    what = f"{NUMBERS[numbers]} at batch {batch_size:,} {'does not fit' if too_large else 'fits'}"
    leaner = not all(made.kind == "tpu" for made in compiled)

    def verdict(each: bool) -> Verdict:
        if each and leaner:
            return "inconclusive"
        return "not reproduced" if each == too_large else "reproduced"

    return _judge(fits, verdict, what, told, KEEPS_MORE if leaner else SAME_COMPILER)


def rounds_float32_operands(compiled: Sequence[CompiledTarget], benchmark: str, batch_size: int) -> Assessment | None:
    """Judge whether the compiler keeps an operand of every float32 product in bfloat16, at default precision."""

    def verdict(share: OperationShare) -> Verdict:
        if share.num_chosen == share.num_all:
            return "reproduced"
        return "in direction only" if share.num_chosen else "not reproduced"

    def share(made: CompiledTarget) -> OperationShare | None:
        program = made.find(benchmark, "float32_default", batch_size)
        found = rounded_to_16_bits(program) if program and program.memory else None
        return found if found and found.num_all else None

    shares = _by_target([made for made in compiled if made.kind == "tpu"], share)
    told = {title: f"{rounded} of {count} products" for title, (rounded, count) in shares.items()}
    return _judge(
        shares, verdict, "every float32 product has an operand that the compiler keeps in bfloat16", told, SAME_COMPILER
    )


def _by_target(compiled: Sequence[CompiledTarget], ask: Callable[[CompiledTarget], T | None]) -> dict[str, T]:
    return {made.title: answer for made in compiled if (answer := ask(made)) is not None}


def _judge(
    found: Mapping[str, T],
    verdict: Callable[[T], Verdict],
    what: str,
    told: Mapping[str, str],
    note: str,
) -> Assessment | None:
    """Return the verdict that all targets share; of more and less of the same direction, the less; else inconclusive.

    Args:
        what: the claim, as a sentence.
    """
    if not found:
        return None
    verdicts = [verdict(each) for each in found.values()]
    shared: Verdict = verdicts[0] if len(set(verdicts)) == 1 else "inconclusive"
    if set(verdicts) == {"reproduced", "in direction only"}:
        shared = "in direction only"
    holding, count = verdicts.count("reproduced"), len(verdicts)
    if "inconclusive" in verdicts and len(set(verdicts)) == 1:
        reason = f"not known whether {what}: {LEANER}"
    elif count > 1:
        reason = f"on {holding} of {count} targets {what}" + ("; they differ" if len(set(verdicts)) > 1 else "")
    else:
        reason = what if holding else f"it is not so that {what}"
    titles: dict[str, list[str]] = {}
    for title, words in told.items():
        titles.setdefault(words, []).append(title)
    return Assessment(
        shared,
        f"{reason} ({note})",
        "; ".join(f"{' · '.join(of_these)}: {words}" for words, of_these in titles.items()),
    )


def _of_its_targets(
    claim: Claim, evidence: Evidence, judge: Callable[[Sequence[CompiledTarget]], Assessment | None]
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
    return found


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
