"""Judge claims by what the compilers of other hardware said of the sources' steps. Time is never judged by them."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from pipeline.claims.claim import (
    Assessment,
    BaseClaim,
    EvidenceKind,
    Judge,
    NotTestable,
    Verdict,
    profile_command,
)
from pipeline.claims.evidence import Evidence
from pipeline.compiled.answers import rounded_to_16_bits
from pipeline.compiled.schema import CompiledTarget
from pipeline.compiled.targets import TARGETS
from pipeline.machine.hardware import Hardware
from pipeline.study.configuration import Name
from pipeline.study.variant import Variant

KEEPS_MORE = "compiled by XLA; the source ran TensorFlow without it, which is another program and keeps more alive"
SAME_COMPILER = "compiled by XLA, as every program for a TPU is"
LEANER = "as compiled here it fits, and the source's program may not have"
MAKE_COMPILED = "Its compiler, which needs no such device: make compiled."


class Step(NamedTuple):
    """Name a compiled step by its key among the programs of a target."""

    benchmark: str
    numbers: str
    batch_size: int


def find_step(benchmark: str, name: str, variant: Variant, evidence: Evidence) -> Step | NotTestable:
    """Return the step by which the variant of this name trains."""
    if not variant.model_copy(update={"tf32": False, "jit_compile": False}).is_plain("tensorflow"):
        return NotTestable(f"no step of {name} is compiled", "A variant that differs in policy alone.")
    if benchmark not in evidence.recipes:
        return NotTestable(f"no step of {benchmark} is compiled", MAKE_COMPILED)
    by_default = variant.policy == "float32" and variant.tf32
    batch_size = variant.batch_multiplier * int(evidence.recipes[benchmark]["batch_size"])
    return Step(benchmark, "float32_default" if by_default else variant.policy, batch_size)


def runs_decide(claim: BaseClaim) -> str:
    """Say which runs decide where compilers leave it open."""
    return f"Runs on such hardware: {profile_command('tpu' if claim.needs.hardware == 'tpu' else 'paper')}."


class Finding(NamedTuple):
    """Hold the verdict by one target's compiler, and in words what it said."""

    verdict: Verdict
    words: str


def judge_targets(
    claim: BaseClaim, evidence: Evidence, what: str, note: str, ask: Callable[[CompiledTarget], Finding | None]
) -> Assessment | NotTestable:
    """Return the verdict that all targets share; of more and less of the same direction, the less; else inconclusive.

    Args:
        what: the claim, as a sentence.
        note: what stands between the compiler's answer and the source's run.
        ask: returns what one target's compiler says; None where it does not tell.
    """
    chosen = [made for made in evidence.compiled if not claim.needs.lacking(_hardware(made))]
    found = {made.title: finding for made in chosen if (finding := ask(made))}
    if not found:
        wanted = claim.needs.lacking(Hardware("cpu", "")) or "any accelerator"
        return NotTestable(f"nothing that tells was compiled for {wanted}", MAKE_COMPILED)
    verdicts = [finding.verdict for finding in found.values()]
    different, holding = set(verdicts), verdicts.count("reproduced")
    verdict: Verdict = verdicts[0] if len(different) == 1 else "inconclusive"
    if different == {"reproduced", "in direction only"}:
        verdict = "in direction only"
    if different == {"inconclusive"}:
        reason = f"not known whether {what}: {LEANER}"
    elif len(verdicts) > 1:
        reason = f"on {holding} of {len(verdicts)} targets {what}" + ("; they differ" if len(different) > 1 else "")
    else:
        reason = what if holding else f"it is not so that {what}"
    titles: dict[str, list[str]] = {}
    for title, finding in found.items():
        titles.setdefault(finding.words, []).append(title)
    measured = "; ".join(f"{' · '.join(of_these)}: {words}" for words, of_these in titles.items())
    return Assessment(verdict, f"{reason} ({note})", measured)


def _hardware(made: CompiledTarget) -> Hardware:
    """Return the class of hardware that a program was compiled for."""
    gpu = TARGETS[made.target].gpu
    if gpu is None:
        return Hardware("tpu", made.title, memory_bytes=made.memory_bytes)
    major, minor = gpu.compute_capability
    return Hardware("nvidia_gpu", made.title, major + minor / 10, made.memory_bytes)


class RoundingClaim(BaseClaim):
    """At default precision, every float32 product of a step of `benchmark` takes an operand in bfloat16."""

    kind: Literal["rounding"]
    benchmark: Name

    @property
    def asked(self) -> tuple[str, str]:
        return f"the float32 products of a compiled step of {self.benchmark}", "each has an operand in bfloat16"

    @property
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        return {"compiled": Judge(self._compiled, "Compilers that agree.")}

    def _compiled(self, evidence: Evidence) -> Assessment | NotTestable:
        by_default = Variant(policy="float32", batch_multiplier=1, tf32=True)
        step = find_step(self.benchmark, "float32", by_default, evidence)
        if isinstance(step, NotTestable):
            return step

        def ask(made: CompiledTarget) -> Finding | None:
            program = made.find(*step)
            if made.kind != "tpu" or not program or not program.memory:
                return None
            rounded, count = rounded_to_16_bits(program)
            if not count:
                return None  # none of none proves nothing
            verdict: Verdict = (
                "reproduced" if rounded == count else "in direction only" if rounded else "not reproduced"
            )
            return Finding(verdict, f"{rounded} of {count} products")

        what = "every float32 product has an operand that the compiler keeps in bfloat16"
        return judge_targets(self, evidence, what, SAME_COMPILER, ask)
