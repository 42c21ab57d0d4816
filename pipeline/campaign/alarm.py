"""A campaign against the baseline of its series: what has changed, whether it is confirmed, and the exit status.

0 nothing changed · 10 a warning: repeat on fresh seeds · 20 drift: the warning came back, in the same direction ·
30 too little evidence · 40 no measurement of speed that counts.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.campaign.entry import CampaignEntry
from pipeline.speed.blocks import REPEAT
from pipeline.statistics.drift import MIN_SEEDS, Direction, Shift, shift, shift_of_speeds

ACCURACY, TIME, RELATIVE_TIME = "test accuracy", "training time", "training time over the baseline's"
NEGLIGIBLE_TIME, NEGLIGIBLE_RELATIVE_TIME = math.log(1.05), math.log(1.02)
Place = tuple[str, str, str]  # benchmark, variant, quantity
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
        if self.quantity != ACCURACY:
            said = f"{math.exp(now - then):.3f}× what it was, {math.exp(-allowed):.3f} to {math.exp(allowed):.3f} is"
        else:
            said = f"{now - then:+.2f} pp from what it was, ±{allowed:.2f} is"
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
        Alarm(*place, found, direction, (place, direction) in repeated)
        for (place, direction), found in _outside(new, baseline).items()
    ]
    reasons = list(_too_little(new, baseline))
    any_completed = any(run.outcome == "completed" for run in new.runs)
    if any(finding.confirmed for finding in findings):
        return DriftResult(DRIFT, findings, reasons)
    if findings:
        return DriftResult(WARNING, findings, reasons)
    if any_completed and not new.launches:
        return DriftResult(INVALID, findings, ["no measurement of speed counts", *reasons])
    return DriftResult(TOO_LITTLE if reasons else FINE, findings, reasons)


def _outside(campaign: CampaignEntry, baseline: Sequence[CampaignEntry]) -> dict[tuple[Place, Direction], Shift]:
    """Benchmark, variant and quantity that have left their band, and where to."""
    shifts = {
        (benchmark, variant, ACCURACY): shift(
            [old.accuracies(benchmark, variant) for old in baseline], campaign.accuracies(benchmark, variant), 0.0
        )
        for benchmark, variant in dict.fromkeys((run.benchmark, run.variant) for run in campaign.runs)
    }
    for benchmark in dict.fromkeys(launch.benchmark for launch in campaign.launches):
        shifts |= _shifts_of_time(benchmark, campaign, baseline)
    return {(place, found.direction): found for place, found in shifts.items() if found and found.direction}


def _shifts_of_time(
    benchmark: str, campaign: CampaignEntry, baseline: Sequence[CampaignEntry]
) -> dict[Place, Shift | None]:
    """Return the shifts of the baseline variant's time, and of those of the others beside it.

    A single campaign does not show how fast a machine is from one week to the next: the time itself is judged where so
    many campaigns are pinned that they do. What variants take beside each other, launches show.
    """
    pinned = [old for old in baseline if old.training_times(benchmark)]
    timed = [set(old.timed_variants(benchmark)) for old in pinned]
    names = [name for name in campaign.timed_variants(benchmark) if all(name in of_old for of_old in timed)]
    if not pinned or not names:
        return {}
    shifts: dict[Place, Shift | None] = {}
    if len(pinned) >= MIN_SEEDS:
        times = [old.training_times(benchmark) for old in pinned]
        shifts[benchmark, names[0], TIME] = shift(times, campaign.training_times(benchmark), NEGLIGIBLE_TIME)
    effects = [old.launch_effects(benchmark, names) for old in pinned]
    beside = np.array([1.0 if name in (names[0], REPEAT) else 0.0 for name in names])  # measured twice
    for name in names[1:]:
        weights = np.array([1.0 if other == name else 0.0 for other in names])
        weights -= np.eye(len(names))[0] if name == REPEAT else beside / beside.sum()
        shifts[benchmark, name, RELATIVE_TIME] = shift_of_speeds(
            effects, campaign.launch_effects(benchmark, names), weights, NEGLIGIBLE_RELATIVE_TIME
        )
    return shifts


def _too_little(new: CampaignEntry, baseline: Sequence[CampaignEntry]) -> Iterator[str]:
    completed = sum(run.outcome == "completed" for run in new.runs)
    if completed < new.num_planned:
        yield f"{completed} of {new.num_planned} runs completed"
    if not baseline:
        yield f"series {new.series} has no baseline: python -m stages.pin --campaign {new.campaign}, and commit"
    elif not any(
        shift([old.accuracies(run.benchmark, run.variant) for old in baseline], [0.0], 0.0) for run in new.runs
    ):
        yield "the baseline has fewer than three seeds: its spread is not known"
