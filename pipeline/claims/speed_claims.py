"""Claims about speed: the speedup of a variant over another."""

import math
from typing import Literal

from pipeline.claims.claim import Assessment, Judge, Judges, PairClaim, Threshold, ThresholdClaim
from pipeline.claims.evidence import Evidence
from pipeline.claims.wording import describe_kernels, describe_ratio, describe_speedup, failed_runs
from pipeline.comparison.schema import Pair
from pipeline.statistics.intervals import Ratio
from pipeline.statistics.sittings import reach


class SpeedupClaim(PairClaim, ThresholdClaim):
    """The speedup of `candidate` over `baseline`, by default the study's, is at least or at most so much.

    Where `baseline` is `default`, it is float32 as the device computes it unless asked for more: TF32 on an NVIDIA GPU
    of compute capability 8.0 and up, bfloat16 products on a TPU, strict float32 elsewhere. Where `existential`, the
    source says that it can be so: one case where it is not refutes nothing.
    """

    kind: Literal["speedup"]
    with_validation: bool = False  # the source timed whole epochs
    existential: bool = False

    @property
    def asked(self) -> tuple[str, str]:
        epochs = ", whole epochs with validation" if self.with_validation else ""
        return f"the speed of {self.beside_words}{epochs}", self.threshold.words

    @property
    def judges(self) -> Judges:
        more = (
            "More launches in a sitting (speed.budget_seconds). Six sittings, an hour or more apart: they tell how far "
            "days differ here. Differences smaller than between days need several machines."
        )
        return {"measured": Judge(self._can_be if self.existential else self._measured, more)}

    def _can_be(self, evidence: Evidence) -> Assessment:
        found = self._measured(evidence)
        if found.verdict not in ("in direction only", "not reproduced"):
            return found
        told = f"{found.reason}; that it can be so, one case where it is not does not refute"
        return Assessment("inconclusive", told, found.measured)

    def _measured(self, evidence: Evidence) -> Assessment:
        """Judge by the interval of the speedup.

        A difference, which chance could feign, is none if the baseline over itself differs from 1 by as much. A claim
        that there is no difference has nothing to fear from chance. What is left open, and is smaller than sittings
        differ, no longer sitting could settle.
        """
        pair, threshold = self.pair(evidence), self.threshold
        speedup = pair.epoch_speedup if self.with_validation else pair.speedup
        measured = describe_speedup(pair, self.with_validation)
        if speedup.low is None and (bound := pair.speedup_at_most) is not None:
            found = threshold.judge(0.0, bound, measured, has_direction=True)
            return found._replace(reason=f"runs of {self.candidate} were ended as too slow")
        lack = "no interval: one of the two did not train through two launches"
        found = threshold.judge(speedup.low, speedup.high, measured, lack, has_direction=True)
        chance = evidence.comparison.turns_of(self.benchmark).baseline_again
        says_effect = threshold.limit >= 1 if threshold.is_least else threshold.limit < 1
        holds = found.verdict in ("reproduced", "in direction only")
        if says_effect and holds and _is_off_one(chance) and _distance(speedup) <= _distance(chance):
            by_chance = f"no more than the baseline differs from itself: {describe_ratio(chance)}"
            found = Assessment("inconclusive", by_chance, measured)
        elif speedup.low is not None and found.verdict == "inconclusive" and _is_out_of_reach(threshold, pair):
            days, size = 100 * math.expm1(reach(pair.between_sittings)), 100 * abs(threshold.limit - 1)
            beyond = (
                f"one machine cannot decide this: the interval, with other days in it, is ±{days:.0f} % or wider, "
                f"and the claim is of {size:.0f} %"
            )
            found = found._replace(reason=beyond)
        return found._replace(reason=found.reason + failed_runs(pair) + describe_kernels(pair))


def _is_out_of_reach(threshold: Threshold, pair: Pair) -> bool:
    """Tell whether a claim is of a difference so small that days differ by as much. One of none at all has no size."""
    return 0 < abs(math.log(threshold.limit)) <= reach(pair.between_sittings)


def _is_off_one(ratio: Ratio) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high


def _distance(ratio: Ratio) -> float:
    return abs(math.log(ratio.ratio or 1.0))
