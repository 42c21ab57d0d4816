"""Judge each kind of claim: on the speed, memory, accuracy and outcome of runs, and on 16-bit arithmetic.

Each kind is a class in `KINDS`. The sentences of a kind are under `claim.<kind>` in sentences.yaml.
"""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import product
from statistics import fmean
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from pipeline.claims.claim import (
    BaseClaim,
    Evidence,
    Judgement,
    NotTestableError,
    PairClaim,
    SpeedClaim,
    Threshold,
    ThresholdClaim,
    VariantClaim,
    Verdict,
)
from pipeline.comparison.tables import Row
from pipeline.numerics.facts import GROWTH_STEPS, NUM_SCORED, SAMPLES, SHORTFALL, TRIALS, Value, is_measured
from pipeline.numerics.in_words import facts_said, sample_said
from pipeline.records.blocks import REPEAT
from pipeline.statistics.another_day import reach
from pipeline.statistics.circumstances import MAX_OTHER_CPU_SHARE, is_busy
from pipeline.statistics.equivalence import (
    MAX_MARGIN_SHARE,
    is_beyond,
    outcome,
    p_values,
    paired,
)
from pipeline.statistics.intervals import MIN_SEEDS, Estimate, mean, proportion
from pipeline.study.configuration import Name, PositiveFloat
from pipeline.words.sentences import Said


class SpeedupClaim(SpeedClaim, ThresholdClaim):
    """Claim that the speedup of `candidate` over `baseline` is at least or at most a threshold.

    `networks` says where the claim is meant to hold: on `benchmark` ("this"), on at least one network ("some", as in
    "can be faster"), or on all networks ("every", as in "is never faster"). Claims on "some" or "every" network are
    judged by cases. A case is a benchmark of the study with `candidate` or a variant in `also`. A case with the
    verdict "reproduced" confirms "some". A case with the verdict "not reproduced" refutes "every". Without such a case,
    the claim is inconclusive.
    """

    kind: Literal["speedup"]
    also: list[Name] = Field(default_factory=list)
    networks: Literal["this", "some", "every"] = "this"
    with_validation: bool = False  # True if the source timed whole epochs, with their validation

    @property
    def told(self) -> dict[str, Any]:
        return super().told | {"candidates": [self.candidate, *self.also], "whole": self.with_validation}

    def judge(self, evidence: Evidence) -> Judgement:
        if self.networks == "this":
            return self._by_speedup(evidence)
        judged = []
        for benchmark, candidate in product(evidence.study.benchmarks, [self.candidate, *self.also]):
            case = self.model_copy(update={"benchmark": benchmark, "candidate": candidate})
            try:
                judged.append(case._by_speedup(evidence))
            except NotTestableError as error:
                lack = error
        if not judged:
            raise lack
        is_some = self.networks == "some"
        decisive = "reproduced" if is_some else "not reproduced"
        sign = 1 if is_some else -1
        judged.sort(key=lambda each: (each.verdict == decisive, sign * self._side(each)), reverse=True)
        # Pages show only the first two cases, so put the case that is furthest from the first in second place.
        ordered = [judged[0], *judged[:0:-1]]
        measured = [said for each in ordered for said in each.measured]
        if judged[0].verdict == decisive:
            return judged[0].model_copy(update={"measured": measured})
        more = Said("more.case" if is_some else "more.contrary")
        return self.judgement("inconclusive", self.say(self.networks), measured, more)

    def _side(self, judged: Judgement) -> float:
        """Return the logarithm of the measured speedup, negated if the claim gives an upper limit.

        The larger the number, the more it favours the claim. Without a measurement, return 0.
        """
        speed = next((said.numbers["ratio"].value for said in judged.measured), 1.0)
        return math.log(speed) if self.threshold.is_least else -math.log(speed)

    def _by_speedup(self, evidence: Evidence) -> Judgement:
        """Judge the claim on `benchmark` by the interval of the speedup.

        Speeds measured on a busy machine decide nothing. Two processes of each launch train the baseline. If the speeds
        of these processes differ significantly, and by at least as much as the speeds of candidate and baseline, chance
        may explain a claimed effect, and the claim is inconclusive. A claim of no effect needs no such check. If the
        claimed effect, or the distance of the speedup from the threshold, is smaller than the variation from day to
        day, more launches can't settle an inconclusive claim.
        """
        pair, threshold, more = self.pair(evidence), self.threshold, Said("more.launches")
        ratio: Estimate = pair.epoch_speedup if self.with_validation else pair.speedup
        measured = []
        if ratio.value is not None:
            names = {"candidate": pair.candidate, "baseline": pair.baseline, "num_launches": pair.num_launches}
            names |= {"benchmark": self.benchmark, "networks": self.networks}
            measured = [self.say("measured", **names, ratio=ratio, whole=self.with_validation)]
        if is_busy(pair.other_cpu_share):
            busy = self.say("busy", share=pair.other_cpu_share, most=MAX_OTHER_CPU_SHARE)
            return self.judgement("inconclusive", busy, measured, Said("more.quiet"))
        lack = self.say("no_interval", num_launches=pair.num_launches or 0)
        judgement = self.by_threshold(threshold, ratio, measured, lack, more, has_direction=True)
        again = evidence.tables.pair(self.benchmark, REPEAT, evidence.study.comparison.baseline)
        says_effect = threshold.limit >= 1 if threshold.is_least else threshold.limit < 1
        holds = judgement.verdict in ("reproduced", "in direction only")
        if says_effect and holds and again and is_off_one(again.speedup) and _size(ratio) <= _size(again.speedup):
            return self.judgement("inconclusive", self.say("chance", ratio=again.speedup), measured, more)
        days = reach(evidence.study.benchmarks[self.benchmark].sitting_spread)
        if judgement.verdict != "inconclusive" or ratio.value is None:
            return judgement
        if ratio.has_interval and 0 < abs(math.log(threshold.limit)) <= days:
            reason = self.say("out_of_reach", days=math.expm1(days), size=abs(threshold.limit - 1))
            return self.judgement("inconclusive", reason, measured, Said("more.machines"))
        if abs(math.log(ratio.value / threshold.limit)) <= days:
            return judgement.model_copy(update={"would_change": Said("more.machines")})
        return judgement


def is_off_one(ratio: Estimate) -> bool:
    """Return True if the whole interval of a ratio lies on one side of 1."""
    return ratio.lies_above(1) or ratio.lies_below(1)


def _size(ratio: Estimate) -> float:
    return abs(math.log(ratio.value or 1.0))


class MemoryClaim(SpeedClaim, ThresholdClaim):
    """Claim that `candidate` needs at most a given multiple of the baseline's peak memory.

    Each of the two variants is measured at its own batch size.
    """

    kind: Literal["memory"]
    baseline: None = None
    at_most: PositiveFloat

    def judge(self, evidence: Evidence) -> Judgement:
        pair = self.pair(evidence)
        ratio: Estimate = pair.memory_ratio
        measured = [self.say("measured", candidate=pair.candidate, baseline=pair.baseline, ratio=ratio)]
        known = measured if ratio.value is not None else []
        lack, more = self.say("no_interval"), Said("more.launches")
        return self.by_threshold(self.threshold, ratio, known, lack, more, has_direction=True)


class AccuracyClaim(PairClaim):
    """Claim that `candidate` and `baseline` reach the same test accuracy.

    With `despite_skips`, the claim can be tested only if the loss scale skipped a step in a run of the candidate.
    """

    kind: Literal["same_accuracy"]
    despite_skips: bool = False

    def judge(self, evidence: Evidence) -> Judgement:
        pair = self.pair(evidence)
        if pair.reason == "no_runs":
            names = {"benchmark": self.benchmark, "variant": self.candidate}
            raise NotTestableError(Said("lack.runs", names), Said("remedy.variant", names))
        if self.despite_skips and not any(run.skipped_steps for run in self.runs(evidence)):
            raise NotTestableError(Said("lack.skips", self.names), Said("remedy.skips", self.names))
        verdict, reason = judge_equivalence(pair)
        recipe, variant = evidence.study.benchmarks[self.benchmark], evidence.study.variants[self.candidate]
        num_steps = recipe.steps_per_epoch(variant.batch_multiplier) * recipe.num_epochs_of(variant)
        numbers = accuracy_numbers(pair) | {"benchmark": self.benchmark, "num_steps": num_steps}
        measured = [] if pair.difference_pp.value is None else [self.say("measured", **numbers)]
        return self.judgement(verdict, self.say(reason, **numbers), measured, Said("more.seeds"))


ACCURACY_NUMBERS = (
    *("candidate", "baseline", "num_seeds", "baseline_accuracy", "candidate_accuracy", "difference_pp"),
    *("margin_pp", "most_loss_pp", "p_loss_within_margin", "p_different", "p_equivalent", "p_beyond_margin"),
    *("outcome", "reason", "num_candidates", "num_seeds_needed"),
    *("num_failed_candidate", "num_failed_baseline", "num_diverged_candidate", "num_diverged_baseline"),
)


def accuracy_numbers(pair: Row) -> dict[str, Any]:
    """Return the values that fill in sentences about a pair's accuracy."""
    return {name: getattr(pair, name) for name in ACCURACY_NUMBERS}


def judge_equivalence(pair: Row) -> tuple[Verdict, str]:
    """Return the verdict on equal accuracy, and the name of the sentence that gives the reason.

    If runs of the candidate diverged, the claim is not reproduced. There is one exception: if runs of the baseline
    diverged, too, and the candidate is not shown to diverge more often, the claim is inconclusive. If no run of the
    candidate diverged, the equivalence test decides.
    """
    diverged, baseline_diverged = pair.num_diverged_candidate or 0, pair.num_diverged_baseline or 0
    if diverged and baseline_diverged and (proportion(diverged, diverged + baseline_diverged).low or 0.0) <= 0.5:
        return "inconclusive", "each_diverged"
    if diverged:
        return "not reproduced", "diverged"
    if pair.reason is None and is_beyond(pair.p_beyond_margin):
        return "not reproduced", "beyond"
    if pair.reason is None and pair.outcome.startswith("equivalent"):
        return "reproduced", "equivalent"
    return "inconclusive", pair.reason or pair.outcome


class ValueClaim(VariantClaim):
    """Claim that one run gave `value` ± `tolerance`: an accuracy in [0, 1] or a loss."""

    kind: Literal["value"]
    quantity: Literal["test_accuracy", "test_loss", "validation_accuracy"]
    value: float
    tolerance: PositiveFloat

    def judge(self, evidence: Evidence) -> Judgement:
        """Compare `value` ± `tolerance` with the 95 % prediction interval of one more run of the candidate.

        The claim is reproduced if the whole interval lies within the tolerance, and not reproduced if no part of the
        interval does. Otherwise, the claim is inconclusive, as it is if a run did not complete.
        """
        runs, more = self.runs(evidence), Said("more.runs")
        values = [getattr(run, self.quantity) for run in runs if run.outcome == "completed"]
        # Rows give the number of test images only. So losses and validation accuracies count as not rounded.
        is_rounded = self.quantity == "test_accuracy"
        unit = max((1 / run.num_test_examples for run in runs if is_rounded), default=0.0)
        new = mean(values, unit, num_more=1)
        counts = {"num_completed": len(values), "num_runs": len(runs)}
        if new.value is None:
            return self.judgement("inconclusive", self.say("none"), would_change=more)
        measured = [self.say("measured", quantity=self.quantity, mean=new.value, num_completed=len(values))]
        if new.low is None or new.high is None:
            lack = self.say("too_few_seeds", num_completed=len(values), num_needed=MIN_SEEDS)
            return self.judgement("inconclusive", lack, measured, more)
        # The interval of few noisy runs may include impossible values.
        most = math.inf if self.quantity == "test_loss" else 1.0
        new_low, new_high = max(new.low, 0.0), min(new.high, most)
        measured.append(self.say("one_more_run", quantity=self.quantity, new=Estimate(new.value, new_low, new_high)))
        if len(values) < len(runs):
            return self.judgement("inconclusive", self.say("selection", **counts), measured, more)
        low, high = self.value - self.tolerance, self.value + self.tolerance
        if low <= new_low and new_high <= high:
            return self.judgement("reproduced", self.say("holds"), measured)
        if new_low > high or new_high < low:
            return self.judgement("not reproduced", self.say("misses"), measured)
        is_wide = new_high - new_low > _MUCH * self.tolerance
        return self.judgement("inconclusive", self.say("wide" if is_wide else "inside"), measured, more)


_MUCH = 10  # an interval that is wider than this multiple of the tolerance excludes little


class LateSkipsClaim(VariantClaim, ThresholdClaim):
    """Claim that the loss scale skips at most, or at least, a given percentage of the steps after the first epoch.

    Only runs with at least `GROWTH_STEPS` steps after the first epoch count. In a shorter run, the loss scale may never
    grow, and so may never overflow again.
    """

    unit = " %"
    kind: Literal["late_skips"]

    def judge(self, evidence: Evidence) -> Judgement:
        counted = [run for run in self.runs(evidence) if (run.num_late_steps or 0) >= GROWTH_STEPS]
        more = Said("more.steps")
        if not counted:
            names = {"benchmark": self.benchmark, "num_steps": GROWTH_STEPS}
            raise NotTestableError(Said("lack.steps", names), Said("remedy.steps", names))
        num_skips, num_steps = (sum(getattr(run, f"num_late_{what}") for run in counted) for what in ("skips", "steps"))
        share = proportion(num_skips, num_steps)
        measured = [self.say("measured", part=num_skips, total=num_steps, share=share)]
        return self.by_threshold(self.threshold, share.mapped(_percent), measured, more, more)


def _percent(share: float) -> float:
    return 100 * share


# Outcomes that contradict a claimed outcome. A run that diverged had enough memory. A run that was too slow contradicts
# neither claim.
CONTRARY = {"completed": ("out_of_memory",), "out_of_memory": ("completed", "diverged")}


class OutcomeClaim(VariantClaim):
    """Claim that every run of `candidate` ends with `outcome`."""

    kind: Literal["outcome"]
    outcome: Literal["completed", "out_of_memory"]

    def judge(self, evidence: Evidence) -> Judgement:
        """Judge by the outcomes of the candidate's runs.

        The claim is reproduced if every run has the claimed outcome, and not reproduced if every run has an outcome in
        `CONTRARY`. Otherwise, the claim is inconclusive.
        """
        outcomes = Counter(run.outcome for run in self.runs(evidence))
        measured = [
            self.say("measured", candidate=self.candidate, outcome=outcome, count=count)
            for outcome, count in outcomes.items()
        ]
        if outcomes.keys() == {self.outcome}:
            return self.judgement("reproduced", self.say("all"), measured)
        if all(outcome in CONTRARY[self.outcome] for outcome in outcomes):
            return self.judgement("not reproduced", self.say("none"), measured)
        reason = self.say("some" if outcomes[self.outcome] else "unclear")
        return self.judgement("inconclusive", reason, measured, Said("more.alike"))


TRIED = Said("remedy.tried")
MORE = Said("more.tries")


def _numerics(evidence: Evidence, part: str) -> Any:
    """Return a part of results/numerics.json. Raise `NotTestableError` if there is no such file."""
    if evidence.numerics is None:
        raise NotTestableError(Said("lack.numerics"), Said("remedy.numerics"))
    return evidence.numerics[part]


class FactClaim(BaseClaim):
    """Claim that the numerics stage finds exactly the values given in `quantities`."""

    kind: Literal["fact"]
    quantities: Annotated[dict[str, Value], Field(min_length=1)]

    @property
    def is_counted(self) -> bool:
        return not any(map(is_measured, self.quantities))

    def judge(self, evidence: Evidence) -> Judgement:
        facts: Mapping[str, Value] = _numerics(evidence, "facts")
        if any(name not in facts for name in self.quantities):
            raise NotTestableError(Said("lack.fact"), Said("remedy.numerics"))
        measured = facts_said({name: facts[name] for name in self.quantities})
        # Compare texts: JSON has no infinity, so an infinite fact is stored as "inf".
        if any(str(facts[name]) != str(value) for name, value in self.quantities.items()):
            return self.judgement("not reproduced", self.say("misses"), measured)
        return self.judgement("reproduced", self.say("holds"), measured)


class TrialClaim(BaseClaim):
    """Claim that an optimizer trains with most seeds (`trains`), or fails with most seeds.

    A threshold of 50 % divides the two claims. With `margin_pp`, the claim is instead that the mean accuracy is the
    same as in float32, within a margin of that many percentage points.
    """

    kind: Literal["trial"]
    trial: str
    trains: bool
    margin_pp: PositiveFloat | None = None

    @property
    def told(self) -> dict[str, Any]:
        trial = next(trial for trial in TRIALS if trial.name == self.trial)
        return super().told | trial._asdict() | {"shortfall": SHORTFALL}

    def judge(self, evidence: Evidence) -> Judgement:
        trials = _numerics(evidence, "trials")
        trial = next((trial for trial in trials if trial["name"] == self.trial), None)
        if trial is None:
            raise NotTestableError(Said("lack.trial"), TRIED)
        share, float32 = proportion(trial["num_trained"], trial["num_trials"]), fmean(trial["float32_accuracies"])
        measured = [Said("claim.trial.measured", {**trial, "share": share})]
        if MAX_MARGIN_SHARE * float32 < SHORTFALL:
            return self.judgement("inconclusive", self.say("near_chance", accuracy=float32), measured, MORE)
        if self.margin_pp:
            return self._by_margin(trial, measured, self.margin_pp)
        threshold = Threshold(50, is_least=self.trains, unit=" % of seeds")
        return self.by_threshold(threshold, share.mapped(_percent), measured, MORE, MORE)

    def _by_margin(self, trial: Mapping[str, Any], measured: list[Said], margin_pp: float) -> Judgement:
        """Judge by the equivalence test of the accuracies against those in float32, paired by seed."""
        differences = 100 * (np.array(trial["accuracies"]) - trial["float32_accuracies"])
        contrast = paired(differences, 100 / NUM_SCORED)
        found = p_values(contrast, margin_pp)
        reached = outcome(found.within, found.differs)
        numbers = {"difference_pp": contrast.estimate, "num_seeds": len(differences), "margin_pp": margin_pp}
        if is_beyond(found.beyond):
            return self.judgement("not reproduced", self.say("beyond", **numbers), measured)
        if reached.startswith("equivalent"):
            return self.judgement("reproduced", self.say("within", **numbers), measured)
        return self.judgement("inconclusive", self.say("open", **numbers), measured, MORE)


class SampleClaim(ThresholdClaim):
    """Claim that the mean over the tries of a numerics experiment, or a fact, is at least or at most a threshold.

    `sample` names the experiment or the fact.
    """

    kind: Literal["sample"]
    sample: str

    @property
    def is_counted(self) -> bool:
        return self.sample.partition(".")[0] not in SAMPLES

    @property
    def threshold(self) -> Threshold:
        unit = "" if self.is_counted else SAMPLES[self.sample.partition(".")[0]]
        return super().threshold._replace(unit=unit)

    @property
    def asked(self) -> Said:
        name, _, benchmark = self.sample.partition(".")
        return self.say(f"asked.{name}", benchmark=benchmark, **self.threshold._asdict())

    def judge(self, evidence: Evidence) -> Judgement:
        return self._counted(evidence) if self.is_counted else self._measured(evidence)

    def _counted(self, evidence: Evidence) -> Judgement:
        value = _numerics(evidence, "facts").get(self.sample)
        if value is None:
            raise NotTestableError(Said("lack.fact"), Said("remedy.numerics"))
        exactly = Estimate(float(value), float(value), float(value))
        return self.by_threshold(self.threshold, exactly, facts_said({self.sample: value}), MORE, MORE)

    def _measured(self, evidence: Evidence) -> Judgement:
        values = _numerics(evidence, "samples").get(self.sample)
        if not values:
            raise NotTestableError(Said("lack.trial"), TRIED)
        measured = [sample_said(self.sample, values)]
        if len(values) == 1 or len(set(values)) > 1:
            lack = self.say("no_interval", num_tries=len(values))
            return self.by_threshold(self.threshold, mean(values), measured, lack, MORE)
        # All tries gave the same value, so the interval of their mean has no width. The claim is decided only if the
        # lower bound on the share of tries with this value is above a half.
        holds, share = self.threshold.holds(values[0]), proportion(len(values), len(values)).low or 0.0
        numbers = {"num_tries": len(values), "value": values[0], "holds": holds, "share": share}
        reason = self.say("all_alike", **numbers, **self.threshold._asdict())
        if share <= 0.5:
            return self.judgement("inconclusive", reason, measured, MORE)
        return self.judgement("reproduced" if holds else "not reproduced", reason, measured)


class UntestedClaim(BaseClaim):
    """Hold a claim that this project does not test, with the reason and the condition for a test."""

    kind: Literal["untested"]
    reason: str
    testable_by: str

    @property
    def asked(self) -> None:
        return None

    def judge(self, evidence: Evidence) -> Judgement:
        remedy = self.say("remedy", testable_by=self.testable_by)
        return self.judgement("not testable here", self.say("reason", reason=self.reason), would_change=remedy)


KINDS = (
    SpeedupClaim
    | MemoryClaim
    | AccuracyClaim
    | ValueClaim
    | LateSkipsClaim
    | OutcomeClaim
    | FactClaim
    | TrialClaim
    | SampleClaim
    | UntestedClaim
)
Claim = Annotated[KINDS, Field(discriminator="kind")]
