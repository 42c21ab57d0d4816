"""Claims about speed: the speedup of a variant over another."""

import math
from collections.abc import Mapping
from typing import Literal

from pipeline.claims.claim import Assessment, EvidenceKind, Judge, PairClaim
from pipeline.claims.evidence import Evidence
from pipeline.claims.thresholds import Threshold, ThresholdClaim
from pipeline.claims.wording import describe_kernels, describe_ratio, describe_speedup, failed_runs
from pipeline.statistics.intervals import Ratio
from pipeline.study.configuration import Name


class SpeedupClaim(PairClaim, ThresholdClaim):
    """The speedup of `candidate` over `baseline`, by default the study's, is at least or at most so much.

    Where `baseline` is `default`, it is float32 as the device computes it unless asked for more: TF32 on an NVIDIA GPU
    of compute capability 8.0 and up, bfloat16 products on a TPU, strict float32 elsewhere.
    """

    kind: Literal["speedup"]
    baseline: Name | None = None
    with_validation: bool = False  # the source timed whole epochs

    @property
    def judges(self) -> Mapping[EvidenceKind, Judge]:
        rule = self._threshold.rule
        if self._says_effect:
            rule = rule._replace(
                confirmed=f"{rule.confirmed}, and, if the interval of the baseline over itself leaves out 1, the "
                "speedup further from 1 than that"
            )
        more = "More launches, which narrow the interval: a larger speed.budget_seconds makes them."
        return {"measured": Judge(self._measured, rule, more)}

    @property
    def _threshold(self) -> Threshold:
        return Threshold("the speedup", self.at_least or self.at_most or 1.0, self.at_least is not None)

    @property
    def _says_effect(self) -> bool:
        """Tell whether the claim is of a difference, which chance could feign, and not that there is none."""
        return self._threshold.limit >= 1 if self._threshold.is_least else self._threshold.limit < 1

    def _measured(self, evidence: Evidence) -> Assessment:
        pair = self.pair(evidence)
        speedup = pair.epoch_speedup if self.with_validation else pair.speedup
        measured = describe_speedup(pair, self.with_validation)
        if speedup.low is None and (bound := pair.speedup_at_most) is not None:
            found = self._threshold.judge(0.0, bound, measured, "")
            return found._replace(reason=f"runs of {self.candidate} were ended as too slow")
        lack = "no interval: one of the two did not train through two launches"
        found = self._threshold.judge(speedup.low, speedup.high, measured, lack)
        chance = evidence.comparison.turns_of(self.benchmark).baseline_again
        says_so = self._says_effect and found.verdict in ("reproduced", "in direction only")
        if says_so and _is_off_one(chance) and _distance(speedup) <= _distance(chance):
            by_chance = f"no more than the baseline differs from itself: {describe_ratio(chance)}"
            found = Assessment("inconclusive", by_chance, measured)
        return found._replace(reason=found.reason + failed_runs(pair) + describe_kernels(pair))


def _is_off_one(ratio: Ratio) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high


def _distance(ratio: Ratio) -> float:
    return abs(math.log(ratio.ratio or 1.0))
