"""Judge claims about training: speed, memory, accuracy, one published value, skipped steps, and how runs end."""

import math
from collections import Counter
from typing import Any, Literal

from pipeline.claims.claim import (
    Assessment,
    NotTestableError,
    PairClaim,
    SpeedClaim,
    ThresholdClaim,
    VariantClaim,
    Verdict,
)
from pipeline.claims.evidence import Evidence
from pipeline.comparison.tables import Row
from pipeline.records.blocks import REPEAT
from pipeline.sentences import Said
from pipeline.statistics.another_day import reach
from pipeline.statistics.equivalence import is_beyond, is_decided
from pipeline.statistics.intervals import MIN_SEEDS, Interval, mean, proportion
from pipeline.statistics.speeds import MAX_OTHER_CPU_SHARE, is_busy
from pipeline.study.configuration import PositiveFloat

# Outcomes that contradict a claimed outcome. A run that diverged had enough memory. A slow run shows nothing.
CONTRARY = {"completed": ("out_of_memory",), "out_of_memory": ("completed", "diverged")}
_MUCH = 10  # times the tolerance: a wider interval excludes little


class SpeedupClaim(SpeedClaim, ThresholdClaim):
    """Claim that the speedup of `candidate` over `baseline`, by default the study's, is at least or at most some value.

    `existential` means that the source says only that such a speedup is possible. A single counterexample does not
    refute that.
    """

    kind: Literal["speedup"]
    with_validation: bool = False  # the source timed whole epochs
    existential: bool = False

    @property
    def asked(self) -> Said:
        return Said("asked.speedup", self.names | self.threshold._asdict() | {"whole": self.with_validation})

    def judge(self, evidence: Evidence) -> Assessment:
        found = self._by_speedup(evidence)
        if not self.existential or found.verdict not in ("in direction only", "not reproduced"):
            return found
        return Assessment("inconclusive", Said("speedup.existential"), found.measured, would_change=Said("more.case"))

    def _by_speedup(self, evidence: Evidence) -> Assessment:
        """Judge by the interval of the speedup.

        Speeds measured on a busy machine decide nothing. If the baseline's two processes differ by at least as much as
        candidate and baseline, chance may explain a claimed effect, and the claim stays open. A claim of no effect
        needs no such check. If the claimed effect, or the distance from the threshold, is smaller than day-to-day
        variation, more launches can't settle the claim.
        """
        pair, threshold, more = self.pair(evidence), self.threshold, Said("more.launches")
        what = "epoch_speedup" if self.with_validation else "speedup"
        ratio, low, high = (getattr(pair, name) for name in (what, f"{what}_low", f"{what}_high"))
        measured = speed_said(pair, self.with_validation)
        if is_busy(pair.other_cpu_share):
            busy = Said("speedup.busy", {"share": pair.other_cpu_share, "most": MAX_OTHER_CPU_SHARE})
            return Assessment("inconclusive", busy, measured, would_change=Said("more.quiet"))
        lack = Said("speedup.no_interval", {"num_launches": pair.num_launches or 0})
        found = threshold.judge(low, high, measured, lack, more, has_direction=True)
        again = evidence.tables.pair(self.benchmark, REPEAT, evidence.study.comparison.baseline)
        says_effect = threshold.limit >= 1 if threshold.is_least else threshold.limit < 1
        holds = found.verdict in ("reproduced", "in direction only")
        if says_effect and holds and again and is_off_one(again) and _distance(ratio) <= _distance(again.speedup):
            chance = {"ratio": again.speedup, "low": again.speedup_low, "high": again.speedup_high}
            return Assessment("inconclusive", Said("speedup.chance", chance), measured, would_change=more)
        days = reach(evidence.study.benchmarks[self.benchmark].sitting_spread)
        if low is not None and found.verdict == "inconclusive" and 0 < abs(math.log(threshold.limit)) <= days:
            reason = Said("speedup.out_of_reach", {"days": math.expm1(days), "size": abs(threshold.limit - 1)})
            return Assessment("inconclusive", reason, measured, would_change=Said("more.machines"))
        if ratio and found.verdict == "inconclusive" and abs(math.log(ratio / threshold.limit)) <= days:
            return found._replace(would_change=Said("more.machines"))
        return found


def is_off_one(pair: Row) -> bool:
    return pair.speedup_low is not None and not pair.speedup_low <= 1 <= pair.speedup_high


def _distance(ratio: float | None) -> float:
    return abs(math.log(ratio or 1.0))


def speed_said(pair: Row, whole: bool = False) -> list[Said]:
    """Say how fast a pair's candidate trains; say nothing if it was not timed."""
    names = {"candidate": pair.candidate, "baseline": pair.baseline}
    what = "epoch_speedup" if whole else "speedup"
    if (ratio := getattr(pair, what)) is not None:
        ends = {"low": getattr(pair, f"{what}_low"), "high": getattr(pair, f"{what}_high")}
        launches = {"num_launches": pair.num_launches, "whole": whole}
        return [Said("measured.speedup", names | {"ratio": ratio} | ends | launches)]
    return []


class AccuracyClaim(PairClaim):
    """Claim that `candidate` and `baseline`, by default the study's, reach the same test accuracy."""

    kind: Literal["same_accuracy"]

    @property
    def asked(self) -> Said:
        return Said("asked.same_accuracy", self.names)

    def judge(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        if pair.reason == "no_runs":
            names = {"benchmark": self.benchmark, "variant": self.candidate}
            raise NotTestableError(Said("lack.runs", names), Said("remedy.variant", names))
        verdict, reason = judge_equivalence(pair)
        return Assessment(verdict, reason, accuracy_said(pair), would_change=Said("more.seeds"))


ACCURACY_NUMBERS = (
    *("candidate", "baseline", "num_seeds", "baseline_accuracy", "candidate_accuracy", "difference_pp"),
    *("difference_low_pp", "difference_high_pp", "margin_pp", "p_different", "p_equivalent", "p_beyond_margin"),
    *("outcome", "reason", "num_candidates", "num_seeds_needed"),
    *("num_failed_candidate", "num_failed_baseline", "num_diverged_candidate", "num_diverged_baseline"),
)


def accuracy_numbers(pair: Row) -> dict[str, Any]:
    """Return the values that sentences about a pair's accuracy use."""
    return {name: getattr(pair, name) for name in ACCURACY_NUMBERS}


def accuracy_said(pair: Row) -> list[Said]:
    """Say how far apart the accuracies of a pair are; say nothing if they are unknown."""
    return [] if pair.difference_pp is None else [Said("measured.difference", accuracy_numbers(pair))]


def judge_equivalence(pair: Row) -> tuple[Verdict, Said]:
    """Judge by the equivalence test, unless runs diverged or the test decides nothing."""
    numbers = accuracy_numbers(pair)
    diverged, baseline_diverged = pair.num_diverged_candidate or 0, pair.num_diverged_baseline or 0
    if diverged and baseline_diverged and proportion(diverged, diverged + baseline_diverged).low <= 0.5:
        return "inconclusive", Said("accuracy.each_diverged", numbers)
    if diverged:
        return "not reproduced", Said("accuracy.diverged", numbers)
    if pair.reason is None and is_beyond(pair.p_beyond_margin):
        return "not reproduced", Said("accuracy.beyond", numbers)
    if pair.reason is None and is_decided(pair.outcome, pair.p_beyond_margin):
        return "reproduced", Said("accuracy.equivalent", numbers)
    return "inconclusive", Said(f"accuracy.{pair.reason or pair.outcome}", numbers)


class ValueClaim(VariantClaim):
    """Claim that one run gave `value` ± `tolerance`: an accuracy in [0, 1] or a loss."""

    kind: Literal["value"]
    quantity: Literal["test_accuracy", "test_loss", "validation_accuracy"]
    value: float
    tolerance: PositiveFloat

    @property
    def asked(self) -> Said:
        fields = {"candidate", "benchmark", "quantity", "value", "tolerance"}
        return Said("asked.value", self.model_dump(include=fields))

    def judge(self, evidence: Evidence) -> Assessment:
        """Compare the published value ± tolerance with the 95 % prediction interval of one more run here.

        Noisy runs give a wide interval. An interval that lies partly inside the tolerance decides nothing.
        """
        runs, more = self.runs(evidence), Said("more.runs")
        values = [getattr(run, self.quantity) for run in runs if run.outcome == "completed"]
        # Losses, and accuracies on a validation set of unknown size, count as not rounded.
        is_rounded = self.quantity == "test_accuracy"
        found = mean(values, max((1 / run.num_test_examples for run in runs if is_rounded), default=0.0))
        numbers = {"quantity": self.quantity, "value": self.value, "tolerance": self.tolerance}
        counts = {"num_completed": len(values), "num_runs": len(runs)}
        if found.mean is None:
            return Assessment("inconclusive", Said("value.none", counts), would_change=more)
        measured = [Said("measured.value", {"quantity": self.quantity, "mean": found.mean} | counts)]
        if found.new_low is None or found.new_high is None:
            lack = Said("value.too_few_seeds", counts | {"num_needed": MIN_SEEDS})
            return Assessment("inconclusive", lack, measured, would_change=more)
        most = math.inf if self.quantity == "test_loss" else 1.0  # few noisy runs give an impossibly wide interval
        new = Interval(max(found.new_low, 0.0), min(found.new_high, most))
        measured.append(Said("measured.one_more_run", {"quantity": self.quantity} | new._asdict()))
        if len(values) < len(runs):
            return Assessment("inconclusive", Said("value.selection", counts), measured, would_change=more)
        low, high = self.value - self.tolerance, self.value + self.tolerance
        if low <= new.low and new.high <= high:
            return Assessment("reproduced", Said("value.holds", numbers), measured)
        if new.low > high or new.high < low:
            return Assessment("not reproduced", Said("value.misses", numbers), measured)
        is_wide = new.high - new.low > _MUCH * self.tolerance
        reason = Said("value.wide" if is_wide else "value.inside", numbers)
        return Assessment("inconclusive", reason, measured, would_change=more)


class LateSkipsClaim(VariantClaim, ThresholdClaim):
    """Claim that the loss scale skips at most a given percentage of the steps after the first epoch."""

    unit = " %"
    kind: Literal["late_skips"]

    @property
    def asked(self) -> Said:
        names = {"candidate": self.candidate, "benchmark": self.benchmark}
        return Said("asked.late_skips", names | self.threshold._asdict())

    def judge(self, evidence: Evidence) -> Assessment:
        counted = [run for run in self.runs(evidence) if run.num_late_steps is not None]
        more = Said("more.steps")
        if not counted:
            return Assessment("inconclusive", Said("late_skips.none"), would_change=more)
        num_steps = sum(run.num_late_steps for run in counted)
        skips = proportion(sum(run.num_late_skips for run in counted), num_steps)
        measured = [Said("measured.late_skips", skips._asdict())]
        return self.threshold.judge(100 * skips.low, 100 * skips.high, measured, more, more)


class MemoryClaim(SpeedClaim, ThresholdClaim):
    """Claim that `candidate` needs at most a given multiple of the baseline's peak memory, each at its own batch."""

    kind: Literal["memory"]
    baseline: None = None
    at_most: PositiveFloat

    @property
    def asked(self) -> Said:
        return Said("asked.memory", self.names | self.threshold._asdict())

    def judge(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        ends = {"ratio": pair.memory_ratio, "low": pair.memory_ratio_low, "high": pair.memory_ratio_high}
        names = {"candidate": pair.candidate, "baseline": pair.baseline}
        measured = [] if pair.memory_ratio is None else [Said("measured.memory", names | ends)]
        lack, more = Said("memory.no_interval"), Said("more.launches")
        return self.threshold.judge(ends["low"], ends["high"], measured, lack, more, has_direction=True)


class OutcomeClaim(VariantClaim):
    """Claim that every run of `candidate` ends with `outcome`."""

    kind: Literal["outcome"]
    outcome: Literal["completed", "out_of_memory"]

    @property
    def asked(self) -> Said:
        return Said("asked.outcome", self.model_dump(include={"candidate", "benchmark", "outcome"}))

    def judge(self, evidence: Evidence) -> Assessment:
        """Judge how runs ended. A run that was too slow decides nothing. A run that diverged did not lack memory."""
        outcomes = Counter(run.outcome for run in self.runs(evidence))
        measured = [
            Said("measured.outcome", {"candidate": self.candidate, "outcome": outcome, "count": count})
            for outcome, count in outcomes.items()
        ]
        if outcomes.keys() == {self.outcome}:
            return Assessment("reproduced", Said("outcome.all"), measured)
        if all(ended in CONTRARY[self.outcome] for ended in outcomes):
            return Assessment("not reproduced", Said("outcome.none"), measured)
        reason = Said("outcome.some" if outcomes[self.outcome] else "outcome.unclear")
        return Assessment("inconclusive", reason, measured, would_change=Said("more.alike"))


MeasuredClaim = SpeedupClaim | AccuracyClaim | ValueClaim | LateSkipsClaim | MemoryClaim | OutcomeClaim
