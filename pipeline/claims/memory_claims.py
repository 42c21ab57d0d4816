"""Claims about memory: the peak of a step, and how runs end. Compilers judge them too."""

from collections.abc import Mapping
from typing import Literal

from pipeline.claims.claim import (
    Assessment,
    EvidenceKind,
    Judge,
    NotTestable,
    PairClaim,
    VariantClaim,
    Verdict,
)
from pipeline.claims.compiled_claims import KEEPS_MORE, SAME_COMPILER, Finding, find_step, judge_targets, runs_decide
from pipeline.claims.evidence import Evidence
from pipeline.claims.thresholds import Threshold
from pipeline.claims.wording import OUTCOMES, count_seeds, describe_ratio, failed_runs
from pipeline.compiled.answers import NUMBERS, memory_ratio, step_fits
from pipeline.compiled.schema import CompiledTarget
from pipeline.records.schema import Outcome
from pipeline.statistics.intervals import MIN_SEEDS
from pipeline.study.configuration import PositiveFloat

# What an outcome contradicts: a run that diverged found its memory, and one that was ended for its time tells nothing.
CONTRARY = {
    "completed": ("out_of_memory",),
    "diverged": ("completed",),
    "out_of_memory": ("completed", "diverged"),
    "too_slow": ("completed",),
}


class MemoryClaim(PairClaim):
    """The peak memory of `candidate` is at most so many times that of the study's baseline, at the batch of each."""

    kind: Literal["memory"]
    at_most: PositiveFloat

    @property
    def asked(self) -> tuple[str, str]:
        return f"the peak memory of {self.beside_words}", Threshold(self.at_most, is_least=False).words

    @property
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        return {
            "measured": Judge(self._measured, "More seeds."),
            "compiled": Judge(self._compiled, runs_decide(self)),
        }

    def _measured(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        lack = f"no interval: {count_seeds(pair.num_seeds)} that both completed, {MIN_SEEDS} are needed"
        measured = describe_ratio(pair.memory_ratio, f"the peak memory of {pair.baseline}")
        threshold = Threshold(self.at_most, is_least=False)
        found = threshold.judge(pair.memory_ratio.low, pair.memory_ratio.high, measured, lack)
        return found._replace(reason=found.reason + failed_runs(pair))

    def _compiled(self, evidence: Evidence) -> Assessment | NotTestable:
        variant = evidence.variants[self.candidate]
        step = find_step(self.benchmark, self.candidate, variant, evidence)
        if isinstance(step, NotTestable):
            return step
        baseline_batch_size = step.batch_size // variant.batch_multiplier

        def ask(made: CompiledTarget) -> Finding | None:
            ratio = memory_ratio(made, *step, baseline_batch_size)
            if ratio is None:
                return None
            less: Verdict = "in direction only" if ratio < 1 else "not reproduced"
            return Finding("reproduced" if ratio <= self.at_most else less, f"{ratio:.2f}×")

        batches = f" at batch {step.batch_size:,}" if variant.batch_multiplier != 1 else ""
        baseline = "strict float32" + (f" at {baseline_batch_size:,}" if batches else "")
        what = f"a compiled step{batches} takes at most {self.at_most:g} times the memory of {baseline}"
        return judge_targets(self, evidence, what, KEEPS_MORE, ask)


class OutcomeClaim(VariantClaim):
    """Every run of `candidate` ends so."""

    kind: Literal["outcome"]
    outcome: Outcome

    @property
    def asked(self) -> tuple[str, str]:
        return f"how runs of {self.candidate} in {self.benchmark} end", f"each of them {OUTCOMES[self.outcome]}"

    @property
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        """Return the judges. Compilers tell what fits; how else runs end, only running them tells."""
        judges: dict[EvidenceKind, Judge] = {"measured": Judge(self._measured, "Runs that all end alike.")}
        if self.outcome in ("completed", "out_of_memory"):
            judges["compiled"] = Judge(self._compiled, runs_decide(self))
        return judges

    def _measured(self, evidence: Evidence) -> Assessment:
        """Judge how runs ended. One that was ended for its time tells neither; one that diverged found its memory."""
        outcomes = evidence.comparison.variant(self.benchmark, self.candidate).outcomes
        total, count = sum(outcomes.values()), outcomes.get(self.outcome, 0)
        others = [f"; {number} {OUTCOMES[ended]}" for ended, number in outcomes.items() if ended != self.outcome]
        measured = f"{count} of {total} runs of {self.candidate} {OUTCOMES[self.outcome]}" + "".join(others)
        if count == total:
            return Assessment("reproduced", "all ended so", measured)
        if all(ended in CONTRARY[self.outcome] for ended in outcomes):
            return Assessment("not reproduced", "none ended so", measured)
        return Assessment("inconclusive", "some did, not all" if count else "how they ended does not tell", measured)

    def _compiled(self, evidence: Evidence) -> Assessment | NotTestable:
        """Judge by the memory of a step.

        A step compiled by XLA that does not fit tells that one which keeps more alive would not either. One that fits
        tells only where XLA compiled the source's step too: for a TPU.
        """
        step = find_step(self.benchmark, self.candidate, evidence.variants[self.candidate], evidence)
        if isinstance(step, NotTestable):
            return step
        is_to_fit, is_leaner = self.outcome == "completed", self.needs.hardware != "tpu"

        def ask(made: CompiledTarget) -> Finding | None:
            fits = step_fits(made, *step)
            if fits is None:
                return None
            verdict: Verdict = "reproduced" if fits == is_to_fit else "not reproduced"
            return Finding("inconclusive" if fits and is_leaner else verdict, "fits" if fits else "does not fit")

        what = f"{NUMBERS[step.numbers]} at batch {step.batch_size:,} {'fits' if is_to_fit else 'does not fit'}"
        return judge_targets(self, evidence, what, KEEPS_MORE if is_leaner else SAME_COMPILER, ask)
