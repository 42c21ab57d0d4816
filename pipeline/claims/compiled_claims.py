"""Claims that compilers judge too: memory, how runs end, and products that are rounded.

They are asked about the steps of the sources, for hardware that need not be here. Time is never judged by them.
"""

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

from pipeline.claims.claim import (
    Assessment,
    BaseClaim,
    Judges,
    NotTestableError,
    PairClaim,
    ThresholdClaim,
    VariantClaim,
    Verdict,
    profile_command,
)
from pipeline.claims.evidence import Evidence
from pipeline.claims.wording import OUTCOMES, count_seeds, describe_ratio, failed_runs
from pipeline.compiled.answers import PRECISION_WORDS, memory_ratio, rounded_to_16_bits, step_fits
from pipeline.compiled.schema import CompiledTarget
from pipeline.compiled.targets import TARGETS
from pipeline.machine.hardware import Hardware
from pipeline.records.schema import Outcome
from pipeline.statistics.intervals import MIN_SEEDS
from pipeline.study.configuration import Name, PositiveFloat
from pipeline.study.variant import Variant

KEEPS_MORE = "compiled by XLA; the source ran TensorFlow without it, which keeps more in memory"
SAME_COMPILER = "compiled by XLA, as every program for a TPU is"
LEANER = "as compiled here it fits, and the source's program may not have"
MAKE_COMPILED = "Ask its compiler, which needs no such device: make compiled."
# What an outcome contradicts: a run that diverged found its memory, and one that was ended for its time tells nothing.
CONTRARY = {
    "completed": ("out_of_memory",),
    "diverged": ("completed",),
    "out_of_memory": ("completed", "diverged"),
    "too_slow": ("completed",),
}


class Step(NamedTuple):
    """Name a compiled step by its key among the programs of a target."""

    benchmark: str
    precision: str
    batch_size: int


def find_step(claim: BaseClaim, benchmark: str, name: str, variant: Variant, evidence: Evidence) -> Step:
    """Return the step by which the variant of this name trains. Raise `NotTestableError` where none is compiled."""
    if not variant.model_copy(update={"tf32": False, "jit_compile": False}).is_plain("tensorflow"):
        raise NotTestableError(f"no step of {name} is compiled", "A variant that differs in policy alone.")
    if benchmark not in evidence.recipes:
        raise NotTestableError(f"no step of {benchmark} is compiled", _make_compiled(claim))
    by_default = variant.policy == "float32" and variant.tf32
    batch_size = variant.batch_multiplier * int(evidence.recipes[benchmark]["batch_size"])
    return Step(benchmark, "float32_default" if by_default else variant.policy, batch_size)


def _make_compiled(claim: BaseClaim) -> str:
    return MAKE_COMPILED if claim.needs.hardware in ("anything", "nvidia_gpu", "tpu") else ""


# The verdict by one target's compiler, and in words what it said; None where it does not tell.
Finding = tuple[Verdict, str] | None


def judge_targets(
    claim: BaseClaim, evidence: Evidence, what: str, note: str, ask: Callable[[CompiledTarget], Finding]
) -> Assessment:
    """Return the verdict that all targets share; of more and less of the same direction, the less; else inconclusive.

    Where compilers leave it open, runs decide, if the claim is of runs.

    Args:
        what: the claim, as a sentence.
        note: what stands between the compiler's answer and the source's run.
        ask: returns what one target's compiler says.

    Raises:
        NotTestableError: none tells.
    """
    chosen = [made for made in evidence.compiled if not claim.needs.lacking(_hardware(made))]
    found = {made.title: finding for made in chosen if (finding := ask(made))}
    if not found:
        wanted = claim.needs.lacking(Hardware("cpu", "")) or "any accelerator"
        raise NotTestableError(f"nothing that tells was compiled for {wanted}", _make_compiled(claim))
    verdicts = [verdict for verdict, _ in found.values()]
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
    for title, (_, words) in found.items():
        titles.setdefault(words, []).append(title)
    measured = "; ".join(f"{' · '.join(of_these)}: {words}" for words, of_these in titles.items())
    runs = profile_command("tpu" if claim.needs.hardware == "tpu" else "paper")
    would_change = f"Runs on such hardware: {runs}." if "measured" in claim.judges else None
    return Assessment(verdict, f"{reason} ({note})", measured, would_change=would_change)


def _hardware(made: CompiledTarget) -> Hardware:
    """Return the class of hardware that a program was compiled for."""
    gpu = TARGETS[made.target].gpu
    if gpu is None:
        return Hardware("tpu", made.title, memory_bytes=made.memory_bytes)
    major, minor = gpu.compute_capability
    return Hardware("nvidia_gpu", made.title, major + minor / 10, made.memory_bytes)


class MemoryClaim(PairClaim, ThresholdClaim):
    """The peak memory of `candidate` is at most so many times that of the study's baseline, at the batch of each."""

    more: ClassVar[str] = "More seeds."
    kind: Literal["memory"]
    baseline: None = None
    at_most: PositiveFloat

    @property
    def asked(self) -> tuple[str, str]:
        return f"the peak memory of {self.beside_words}", self.threshold.words

    @property
    def judges(self) -> Judges:
        return {"measured": self._measured, "compiled": self._compiled}

    def _measured(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        ratio = pair.memory_ratio
        lack = f"no interval: {count_seeds(pair.num_seeds)} that both completed, {MIN_SEEDS} are needed"
        measured = describe_ratio(ratio, f"the peak memory of {pair.baseline}")
        found = self.threshold.judge(ratio.low, ratio.high, measured, lack, has_direction=True)
        return found._replace(reason=found.reason + failed_runs(pair))

    def _compiled(self, evidence: Evidence) -> Assessment:
        variant = evidence.variants[self.candidate]
        step = find_step(self, self.benchmark, self.candidate, variant, evidence)
        baseline_batch_size = step.batch_size // variant.batch_multiplier

        def ask(made: CompiledTarget) -> Finding:
            ratio = memory_ratio(made, *step, baseline_batch_size)
            if ratio is None:
                return None
            less: Verdict = "in direction only" if ratio < 1 else "not reproduced"
            return "reproduced" if ratio <= self.at_most else less, f"{ratio:.2f}×"

        batches = f" at batch {step.batch_size:,}" if variant.batch_multiplier != 1 else ""
        baseline = "strict float32" + (f" at {baseline_batch_size:,}" if batches else "")
        most = "no more memory than" if self.at_most == 1 else f"at most {self.at_most:g} times the memory of"
        what = f"a compiled step{batches} takes {most} {baseline}"
        return judge_targets(self, evidence, what, KEEPS_MORE, ask)


class OutcomeClaim(VariantClaim):
    """Every run of `candidate` ends so."""

    more: ClassVar[str] = "Runs that all end alike."
    kind: Literal["outcome"]
    outcome: Outcome

    @property
    def asked(self) -> tuple[str, str]:
        return f"how runs of {self.candidate} in {self.benchmark} end", f"each of them {OUTCOMES[self.outcome]}"

    @property
    def judges(self) -> Judges:
        """Return the judges. Compilers tell what fits; how else runs end, only running them tells."""
        if self.outcome in ("completed", "out_of_memory"):
            return {"measured": self._measured, "compiled": self._compiled}
        return super().judges

    def _measured(self, evidence: Evidence) -> Assessment:
        """Judge how runs ended. One that was ended for its time tells neither; one that diverged found its memory."""
        outcomes = self.statistics(evidence).outcomes
        total, count = sum(outcomes.values()), outcomes.get(self.outcome, 0)
        others = [f"; {number} {OUTCOMES[ended]}" for ended, number in outcomes.items() if ended != self.outcome]
        measured = f"{count} of {total} runs of {self.candidate} {OUTCOMES[self.outcome]}" + "".join(others)
        if count == total:
            return Assessment("reproduced", "all ended so", measured)
        if all(ended in CONTRARY[self.outcome] for ended in outcomes):
            return Assessment("not reproduced", "none ended so", measured)
        return Assessment("inconclusive", "some did, not all" if count else "how they ended does not tell", measured)

    def _compiled(self, evidence: Evidence) -> Assessment:
        """Judge by the memory of a step.

        A step compiled by XLA that does not fit tells that one which keeps more alive would not either. One that fits
        tells only where XLA compiled the source's step too: for a TPU.
        """
        step = find_step(self, self.benchmark, self.candidate, evidence.variants[self.candidate], evidence)
        is_to_fit, is_leaner = self.outcome == "completed", self.needs.hardware != "tpu"

        def ask(made: CompiledTarget) -> Finding:
            fits = step_fits(made, *step)
            if fits is None:
                return None
            verdict: Verdict = "reproduced" if fits == is_to_fit else "not reproduced"
            return "inconclusive" if fits and is_leaner else verdict, "fits" if fits else "does not fit"

        what = (
            f"{PRECISION_WORDS[step.precision]} at batch {step.batch_size:,} {'fits' if is_to_fit else 'does not fit'}"
        )
        return judge_targets(self, evidence, what, KEEPS_MORE if is_leaner else SAME_COMPILER, ask)


class RoundingClaim(BaseClaim):
    """At default precision, every float32 product of a step of `benchmark` takes an operand in bfloat16."""

    more: ClassVar[str] = "Compilers that agree."
    kind: Literal["rounding"]
    benchmark: Name

    @property
    def asked(self) -> tuple[str, str]:
        return f"the float32 products of a compiled step of {self.benchmark}", "each has an operand in bfloat16"

    @property
    def judges(self) -> Judges:
        return {"compiled": self._compiled}

    def _compiled(self, evidence: Evidence) -> Assessment:
        by_default = Variant(policy="float32", batch_multiplier=1, tf32=True)
        step = find_step(self, self.benchmark, "float32", by_default, evidence)

        def ask(made: CompiledTarget) -> Finding:
            program = made.find(*step)
            if made.kind != "tpu" or not program or not program.memory:
                return None
            rounded, count = rounded_to_16_bits(program)
            if not count:
                return None  # none of none proves nothing
            some: Verdict = "in direction only" if rounded else "not reproduced"
            return "reproduced" if rounded == count else some, f"{rounded} of {count} products"

        what = "every float32 product has an operand that the compiler keeps in bfloat16"
        return judge_targets(self, evidence, what, SAME_COMPILER, ask)
