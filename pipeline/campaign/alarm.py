"""Compare a campaign with the baseline of its series, report the changes, and choose the exit status.

The status is 0 if nothing changed, 10 for a warning (repeat the campaign with fresh seeds), 20 for drift (an earlier
campaign gave the same warning, in the same direction), 30 for too little evidence, and 40 if no speed measurement is
usable.
"""

import math
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

import numpy as np

from pipeline.campaign.ledger import CampaignEntry
from pipeline.records.blocks import REPEAT
from pipeline.statistics.intervals import MIN_SEEDS
from pipeline.statistics.shifts import Shift, shift, shift_of_shares, shift_of_speeds
from pipeline.words.sentences import Said

ACCURACY, TIME, RELATIVE_TIME, COMPLETED = "accuracy", "time", "relative_time", "completed"
NEGLIGIBLE_TIME, NEGLIGIBLE_RELATIVE_TIME = math.log(1.05), math.log(1.02)
NO_SPEED = Said("drift.no_speed")
Place = tuple[str, str, str]  # benchmark, variant, quantity
FINE, WARNING, DRIFT, TOO_LITTLE, INVALID = 0, 10, 20, 30, 40


class DriftResult(NamedTuple):
    exit_code: int
    findings: list[Said]
    reasons: list[Said]


def detect_drift(
    new: CampaignEntry, earlier: Sequence[CampaignEntry], baseline: Sequence[CampaignEntry]
) -> DriftResult:
    """Return the exit status, the changes since the baseline (`findings`), and the gaps in the evidence (`reasons`).

    A finding is a quantity of a variant that has left the band of `pipeline.statistics.shifts`.

    Args:
        earlier: the campaigns before `new`, oldest first. From these, take the last campaign that has the series of
            `new` and is not in the baseline. A finding is confirmed if the same quantity of that campaign has left the
            band in the same direction, and if the campaign shares no seed with `new`.
        baseline: the campaigns pinned as the baseline of the series.
    """
    before = next((old for old in reversed(earlier) if old.series == new.series and old not in baseline), None)
    repeated = _shifts(before, baseline) if before and not before.seeds & new.seeds else {}
    shifts = _shifts(new, baseline)
    findings = [
        _said(*place, found, confirmed=place in repeated and repeated[place].direction == found.direction)
        for place, found in shifts.items()
        if found.direction
    ]
    reasons = [*_too_little(new, baseline, shifts.keys()), *_not_timed(new, baseline)]
    if findings:
        exit_code = DRIFT if any(finding.numbers["confirmed"] for finding in findings) else WARNING
    else:
        exit_code = INVALID if NO_SPEED in reasons else TOO_LITTLE if reasons else FINE
    return DriftResult(exit_code, findings, reasons)


def _said(benchmark: str, variant: str, quantity: str, found: Shift, confirmed: bool) -> Said:
    """Return the sentence on a quantity that has left the band, with the shift and the limits of the band."""
    places = {"benchmark": benchmark, "variant": variant, "confirmed": confirmed}
    now, then, allowed = found
    if quantity in (ACCURACY, COMPLETED):
        return Said(f"drift.{quantity}", places | {"now": now, "then": then, "allowed": allowed})
    ratios = {"slowdown": math.exp(now - then), "least": math.exp(-allowed), "most": math.exp(allowed)}
    return Said(f"drift.{quantity}", places | ratios)


def _shifts(campaign: CampaignEntry, baseline: Sequence[CampaignEntry]) -> dict[Place, Shift]:
    """Return the shift of each quantity for which the campaign and the baseline have enough values."""
    shifts: dict[Place, Shift | None] = {}
    for benchmark, variant in campaign.pairs:
        pinned = [old.accuracies(benchmark, variant) for old in baseline]
        known = [of_campaign for of_campaign in pinned if of_campaign]  # leave out campaigns without a completed run
        unit = max(each.resolution(benchmark, variant) for each in (campaign, *baseline))
        shifts[benchmark, variant, ACCURACY] = shift(known, campaign.accuracies(benchmark, variant), 0.0, unit)
        completed = _completed(baseline, benchmark, variant), _completed([campaign], benchmark, variant)
        shifts[benchmark, variant, COMPLETED] = shift_of_shares(*completed)
    for benchmark in campaign.benchmarks:
        shifts |= _shifts_of_time(benchmark, campaign, baseline)
    return {place: found for place, found in shifts.items() if found}


def _completed(campaigns: Sequence[CampaignEntry], benchmark: str, variant: str) -> tuple[int, int]:
    """Return the number of a variant's completed runs, and the number of all runs of the variant."""
    runs = [run for campaign in campaigns for run in campaign.runs_of(benchmark, variant)]
    return sum(run.outcome == "completed" for run in runs), len(runs)


def _shifts_of_time(
    benchmark: str, campaign: CampaignEntry, baseline: Sequence[CampaignEntry]
) -> dict[Place, Shift | None]:
    """Return the shift of the baseline variant's time, and the shift of each other variant's relative time.

    Times are natural logarithms of seconds. A relative time is the difference from the time of the baseline variant.

    One campaign does not show how a machine's speed varies from week to week. So the time of the baseline variant is
    judged only if at least `MIN_SEEDS` campaigns with times are pinned. Relative times vary from launch to launch, so
    the launches of one campaign suffice for these.
    """
    pinned = [old for old in baseline if old.training_times(benchmark)]
    timed = campaign.timed_variants(benchmark)
    if not pinned or not timed:
        return {}
    shifts: dict[Place, Shift | None] = {}
    if len(pinned) >= MIN_SEEDS:
        times = [old.training_times(benchmark) for old in pinned]
        shifts[benchmark, timed[0], TIME] = shift(times, campaign.training_times(benchmark), NEGLIGIBLE_TIME)
    names = [name for name in timed if all(name in old.timed_variants(benchmark) for old in pinned)]
    effects, fresh = [old.launch_effects(benchmark, names) for old in pinned], campaign.launch_effects(benchmark, names)
    each = np.eye(len(names))
    baselines = np.mean([row for row, name in zip(each, names, strict=True) if name in (names[0], REPEAT)], axis=0)
    for row, name in zip(each[1:], names[1:], strict=True):
        # Two processes measure the baseline. Compare the second with the first, and variants with the mean of the two.
        weights = row - (each[0] if name == REPEAT else baselines)
        shifts[benchmark, name, RELATIVE_TIME] = shift_of_speeds(effects, fresh, weights, NEGLIGIBLE_RELATIVE_TIME)
    return shifts


def _too_little(new: CampaignEntry, baseline: Sequence[CampaignEntry], compared: Set[Place]) -> Iterator[Said]:
    completed = sum(run.outcome == "completed" for run in new.runs)
    before = {pair: {run.outcome for old in baseline for run in old.runs_of(*pair)} for pair in new.pairs}
    failed = [run for run in new.runs if run.outcome != "completed"]
    as_ever = sum(before[run.benchmark, run.variant] == {run.outcome} for run in failed)
    if completed + as_ever < new.num_planned:
        yield Said("drift.too_few_runs", {"num_completed": completed, "num_planned": new.num_planned})
    if not baseline:
        yield Said("drift.no_baseline", {"series": new.series, "campaign": new.campaign})
        return
    unknown = [
        f"{benchmark} {variant}"
        for benchmark, variant in new.pairs
        if new.accuracies(benchmark, variant) and (benchmark, variant, ACCURACY) not in compared
    ]
    if unknown:
        yield Said("drift.no_spread", {"variants": unknown})


def _not_timed(new: CampaignEntry, baseline: Sequence[CampaignEntry]) -> Iterator[Said]:
    """Yield a sentence for each gap in the evidence on times.

    Either no speed measurement of the new campaign is usable, or some campaigns have not timed a variant that others
    have timed.
    """
    completed = list(dict.fromkeys(run.benchmark for run in new.runs if run.outcome == "completed"))
    if completed and not any(map(new.timed_variants, completed)):
        yield NO_SPEED
        return
    for benchmark in completed if baseline else ():
        here = set(new.timed_variants(benchmark))
        timed = [set(old.timed_variants(benchmark)) for old in baseline if old.training_times(benchmark)]
        if once := here.union(*timed) - (here.intersection(*timed) if timed else set()):
            yield Said("drift.timed_once", {"benchmark": benchmark, "variants": sorted(once)})
