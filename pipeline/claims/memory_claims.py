"""Claims about memory: the peak of a step, the largest batch that fits, and how runs end. Compilers judge them too."""

from collections.abc import Mapping
from typing import Literal

from pipeline.claims.claim import (
    Assessment,
    BaseClaim,
    EvidenceKind,
    Judge,
    NotTestable,
    PairClaim,
    Rule,
    VariantClaim,
    Verdict,
)
from pipeline.claims.compiled_claims import KEEPS_MORE, SAME_COMPILER, Finding, find_step, judge_targets, runs_decide
from pipeline.claims.evidence import Evidence
from pipeline.claims.thresholds import Threshold
from pipeline.claims.wording import OUTCOMES, count_seeds, describe_ratio, failed_runs
from pipeline.compiled.answers import NUMBERS, memory_ratio, step_fits
from pipeline.compiled.schema import CompiledTarget
from pipeline.numerics.ceiling import largest_possible
from pipeline.records.schema import Outcome
from pipeline.statistics.intervals import MIN_SEEDS
from pipeline.study.configuration import Name, PositiveFloat
from pipeline.study.variant import PolicyName

# What an outcome contradicts: a run that diverged found its memory, and one that was ended for its time tells nothing.
CONTRARY = {
    "completed": ("out_of_memory",),
    "diverged": ("completed",),
    "out_of_memory": ("completed", "diverged"),
    "too_slow": ("completed",),
}


class MemoryClaim(PairClaim):
    """The peak memory of `candidate` is at most so many times that of the study's baseline."""

    kind: Literal["memory"]
    at_most: PositiveFloat

    @property
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        by_compiler = Rule(
            f"on every target {self._compiled_step}",
            "on every target a compiled step takes no less than in strict float32",
            "on every target a compiled step takes less than in strict float32, on some more than that",
        )
        return {
            "measured": Judge(self._measured, self._threshold.rule, "More seeds."),
            "compiled": Judge(self._compiled, by_compiler, runs_decide(self)),
        }

    @property
    def _threshold(self) -> Threshold:
        return Threshold("the ratio of peak memory", self.at_most, is_least=False)

    @property
    def _compiled_step(self) -> str:
        return f"a compiled step takes at most {self.at_most:g} times the memory of strict float32"

    def _measured(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        lack = f"no interval: {count_seeds(pair.num_seeds)} that both completed, {MIN_SEEDS} are needed"
        measured = describe_ratio(pair.memory_ratio, f"the peak memory of {pair.baseline}")
        found = self._threshold.judge(pair.memory_ratio.low, pair.memory_ratio.high, measured, lack)
        return found._replace(reason=found.reason + failed_runs(pair))

    def _compiled(self, evidence: Evidence) -> Assessment | NotTestable:
        variant = evidence.variants[self.candidate]
        step = find_step(self.benchmark, self.candidate, variant, evidence)
        if isinstance(step, NotTestable):
            return step
        if variant.batch_multiplier != 1:
            return NotTestable("a step at another batch was compiled", "The claim at the batch of the recipe.")

        def ask(made: CompiledTarget) -> Finding | None:
            ratio = memory_ratio(made, *step)
            if ratio is None:
                return None
            less: Verdict = "in direction only" if ratio < 1 else "not reproduced"
            return Finding("reproduced" if ratio <= self.at_most else less, f"{ratio:.2f}×")

        return judge_targets(self, evidence, self._compiled_step, KEEPS_MORE, ask)


class CeilingClaim(BaseClaim):
    """The largest batch that fits under `policy` is at least so many times the one under float32."""

    kind: Literal["largest_batch"]
    benchmark: Name
    policy: PolicyName
    at_least: PositiveFloat

    @property
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        return {"measured": Judge(self._measured, self._threshold.rule)}

    @property
    def _threshold(self) -> Threshold:
        what = "the largest batch, known to a thirty-second, beside that of float32"
        return Threshold(what, self.at_least, is_least=True)

    def _measured(self, evidence: Evidence) -> Assessment | NotTestable:
        sizes = evidence.ceilings["largest_batch"].get(self.benchmark, {})
        ours, theirs = sizes.get(self.policy), sizes.get("float32")
        if not ours or not theirs:
            return NotTestable(
                f"the largest batch of {self.policy} and of float32 is not known",
                f"A study with {self.policy} and float32 on an accelerator, which has a memory of its own to fill.",
            )
        least, most = ours / largest_possible(theirs), largest_possible(ours) / theirs
        measured = f"a batch of {ours:,} fits, in float32 one of {theirs:,}: {ours / theirs:.2f}×"
        return self._threshold.judge(least, most, f"{measured} [{least:.2f}, {most:.2f}]", "")


class OutcomeClaim(VariantClaim):
    """Every run of `candidate` ends so."""

    kind: Literal["outcome"]
    outcome: Outcome

    @property
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        """Return the judges. Compilers tell what fits; how else runs end, only running them tells."""
        judges: dict[EvidenceKind, Judge] = {"measured": Judge(self._measured, self._runs_rule)}
        if self.outcome in ("completed", "out_of_memory"):
            step = f"the compiled step of {self.candidate}"
            overflow = f"{step} fits into the memory of none of the targets"
            fit = f"{step} fits into the memory of every target"
            if self._is_leaner:
                runs = self._runs_rule.confirmed if self.outcome == "completed" else self._runs_rule.refuted
                fit = f"on such hardware {runs} (that {step} fits decides nothing: TensorFlow keeps more alive)"
            rule = Rule(fit, overflow) if self.outcome == "completed" else Rule(overflow, fit)
            judges["compiled"] = Judge(self._compiled, rule, runs_decide(self))
        return judges

    @property
    def _runs_rule(self) -> Rule:
        runs, contrary = f"every run of {self.candidate}", CONTRARY[self.outcome]
        return Rule(f"{runs} {OUTCOMES[self.outcome]}", f"{runs} {' or '.join(OUTCOMES[each] for each in contrary)}")

    @property
    def _is_leaner(self) -> bool:
        """Tell whether XLA compiles here what ran without it for the source, and kept more alive."""
        return self.needs.hardware != "tpu"

    def _measured(self, evidence: Evidence) -> Assessment:
        """Judge how runs ended. One that was ended for its time tells neither; one that diverged found its memory."""
        outcomes = evidence.comparison.variant(self.benchmark, self.candidate).outcomes
        total, count = sum(outcomes.values()), outcomes.get(self.outcome, 0)
        others = [f"; {number} {OUTCOMES[ended]}" for ended, number in outcomes.items() if ended != self.outcome]
        measured = f"{count} of {total} runs of {self.candidate} {OUTCOMES[self.outcome]}" + "".join(others)
        none = all(ended in CONTRARY[self.outcome] for ended in outcomes)
        otherwise = "some did, not all" if count else "how they ended does not tell"
        return self._runs_rule.decide(count == total, none, measured, otherwise)

    def _compiled(self, evidence: Evidence) -> Assessment | NotTestable:
        """Judge by the memory of a step.

        A step compiled by XLA that does not fit tells that one which keeps more alive would not either. One that fits
        tells only where XLA compiled the source's step too: for a TPU.
        """
        step = find_step(self.benchmark, self.candidate, evidence.variants[self.candidate], evidence)
        if isinstance(step, NotTestable):
            return step
        is_to_fit = self.outcome == "completed"

        def ask(made: CompiledTarget) -> Finding | None:
            fits = step_fits(made, *step)
            if fits is None:
                return None
            verdict: Verdict = "reproduced" if fits == is_to_fit else "not reproduced"
            return Finding("inconclusive" if fits and self._is_leaner else verdict, "fits" if fits else "does not fit")

        what = f"{NUMBERS[step.numbers]} at batch {step.batch_size:,} {'fits' if is_to_fit else 'does not fit'}"
        return judge_targets(self, evidence, what, KEEPS_MORE if self._is_leaner else SAME_COMPILER, ask)
