"""A campaign against the baseline of its series: what has changed, whether it is confirmed, and the exit status.

0 nothing changed · 10 a warning: repeat on fresh seeds · 20 drift: the warning came back, in the same direction ·
30 too little evidence · 40 the times can't be used.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.campaign.history import CampaignEntry
from pipeline.statistics.drift import Direction, Shift, shift

NEGLIGIBLE = {"test accuracy": 0.0, "epoch time": math.log(1.05)}  # percentage points; logarithm of a ratio
FINE, WARNING, DRIFT, TOO_LITTLE, INVALID = 0, 10, 20, 30, 40


class Alarm(NamedTuple):
    """A quantity of a variant that has left its band. Better or worse, it counts alike."""

    benchmark: str
    variant: str
    quantity: str
    shift: Shift
    direction: Direction
    confirmed: bool

    def __str__(self) -> str:
        now, then, allowed = self.shift
        if self.quantity == "epoch time":
            said = f"{math.exp(now - then):.2f}× the baseline's, {math.exp(-allowed):.2f} to {math.exp(allowed):.2f} is"
        else:
            said = f"{now - then:+.2f} pp from the baseline's, ±{allowed:.2f} is"
        again = "for the second time, on other seeds" if self.confirmed else "for the first time"
        return f"{self.benchmark} {self.variant}: {self.quantity} {said} within its band; outside {again}"


class DriftResult(NamedTuple):
    exit_code: int
    findings: list[Alarm]
    reasons: list[str]


def detect_drift(
    new: CampaignEntry, earlier: Sequence[CampaignEntry], baseline: Sequence[CampaignEntry]
) -> DriftResult:
    """Return what has changed since the baseline.

    Args:
        earlier: the campaigns before `new`, oldest first; a warning is confirmed by the last one of its series, where
            that one trained on other seeds.
        baseline: the pinned campaigns of its series.
    """
    before = next((old for old in reversed(earlier) if old.series == new.series and old not in baseline), None)
    repeated = set(_outside(before, baseline)) if before and not before.seeds & new.seeds else set()
    findings = [
        Alarm(*place, found, direction, (*place, direction) in {(*p, d) for p, d in repeated})
        for (place, direction), found in _outside(new, baseline).items()
    ]
    reasons = list(_too_little(new, baseline))
    timed = [run for run in new.runs if run.outcome == "completed"]
    if any(finding.confirmed for finding in findings):
        return DriftResult(DRIFT, findings, reasons)
    if findings:
        return DriftResult(WARNING, findings, reasons)
    if timed and all(run.epoch_seconds is None for run in timed):
        return DriftResult(INVALID, findings, ["no run has times that count", *reasons])
    return DriftResult(TOO_LITTLE if reasons else FINE, findings, reasons)


def _outside(
    campaign: CampaignEntry, baseline: Sequence[CampaignEntry]
) -> dict[tuple[tuple[str, str, str], Direction], Shift]:
    """Benchmark, variant and quantity that have left their band, and where to."""
    found = {}
    for benchmark, variant in dict.fromkeys((run.benchmark, run.variant) for run in campaign.runs):
        for quantity, negligible in NEGLIGIBLE.items():
            pinned = [old.values(benchmark, variant, quantity) for old in baseline]
            moved = shift(pinned, campaign.values(benchmark, variant, quantity), negligible)
            if moved and moved.direction:
                found[(benchmark, variant, quantity), moved.direction] = moved
    return found


def _too_little(new: CampaignEntry, baseline: Sequence[CampaignEntry]) -> Iterator[str]:
    completed = sum(run.outcome == "completed" for run in new.runs)
    if completed < new.num_planned:
        yield f"{completed} of {new.num_planned} runs completed"
    if not baseline:
        yield f"series {new.series} has no baseline: python -m stages.pin --campaign {new.campaign}, and commit"
    elif not any(
        shift([old.values(run.benchmark, run.variant, "test accuracy") for old in baseline], [0.0], 0.0)
        for run in new.runs
    ):
        yield "the baseline has fewer than three seeds: its spread is not known"
