"""The verdict on a table of runs, in the words and the look of the report's first screen."""

import math
from pathlib import Path
from typing import NamedTuple

import jinja2

from pipeline.claims.wording import OUTCOMES, count_seeds, describe_plan, describe_ratio
from pipeline.comparison.table_verdicts import Beside, Row, TableVerdict
from pipeline.files.characters import shown_value
from pipeline.numbers import UNKNOWN, estimate, interval, listed
from pipeline.statistics.intervals import MIN_SEEDS

TEMPLATES = Path(__file__).parents[2] / "report"
# A gain that is ignored may be large: "equivalent" would be wrong.
_OF_LOSSES = {"equivalent": "no worse", "equivalent but shifted": "worse within the margin", "different": "worse"}
_FAILURES = OUTCOMES | {"no number": "without a number"}
# The report's colours of verdicts.
_COLOURS = {
    "equivalent": "reproduced",
    "equivalent but shifted": "in-direction-only",
    "different": "not-reproduced",
    "inconclusive": "inconclusive",
}


class Shown(NamedTuple):
    """A row of the table, in words."""

    variant: str
    note: str
    mean: str
    difference: str
    verdict: str
    colour: str
    speed: str
    completed: str
    shows: str
    decides: str
    changes: str


def has_seconds(verdict: TableVerdict) -> bool:
    return any(beside.speed.ratio is not None for _, beside in verdict.candidates)


def question(verdict: TableVerdict) -> str:
    asked = verdict.question
    if asked.one_sided:
        return f"Is the {asked.metric} at most {asked.margin:g} worse than that of {asked.baseline}?"
    return f"Is the {asked.metric} the same as that of {asked.baseline} within ±{asked.margin:g}?"


def how(verdict: TableVerdict) -> str:
    """Tell how runs were compared."""
    runs = [row.failed.total for row in verdict.rows]
    better = "lower" if verdict.question.lower_is_better else "higher"
    pairing = (
        f"paired by seed ({count_seeds(runs[0])})"
        if verdict.is_paired
        else "not paired, because seeds differ between variants (Welch's test)"
    )
    holm = f", {len(runs) - 1} candidates adjusted by Holm's method" if len(runs) > 2 else ""
    return f"{pairing}{holm}; {better} is better"


def shown(verdict: TableVerdict) -> list[Shown]:
    """Return the rows, the baseline first. Numbers have the digits that the margin asks for."""
    places = max(0, 2 - math.ceil(math.log10(verdict.question.margin)))
    return [_shown(row, verdict, places) for row in verdict.rows]


def _shown(row: Row, verdict: TableVerdict, places: int) -> Shown:
    mean = UNKNOWN if row.mean.mean is None else f"{row.mean.mean:.{places}f}".replace("-", "−")
    completed = f"{row.failed.total - row.failed.count} of {row.failed.total}"
    failures = listed(f"{count} {_FAILURES.get(how, how)}" for how, count in row.failures.items())
    share = interval(100 * row.failed.low, 100 * row.failed.high, ".0f")
    note = f"{row.failed.count} of {row.failed.total} failed, {share} % ({failures})" if failures else ""
    beside = row.beside
    if not beside:
        speed = "1×" if has_seconds(verdict) else UNKNOWN
        return Shown(row.variant, note, mean, "baseline", "", "", speed, completed, "", "", "")
    found, outcome = beside.difference, beside.test.outcome
    detectable = beside.test.detectable_margin_pp
    sign = "" if verdict.question.one_sided else "±"
    return Shown(
        variant=row.variant,
        note=note,
        mean=mean,
        difference=estimate(found.mean, found.low95, found.high95, f"+.{places}f", ""),
        verdict=verdict_in_words(beside, verdict.question.one_sided),
        colour=_COLOURS[outcome],
        speed=UNKNOWN if beside.speed.ratio is None else describe_ratio(beside.speed),
        completed=completed,
        shows=UNKNOWN if detectable is None else f"{sign}{detectable:.2g}",
        decides=_what_decides(beside),
        changes=_what_changes(beside, sign),
    )


def _what_decides(beside: Beside) -> str:
    """Tell how many seeds would show on which side of the margin a difference lies, or why no number would."""
    if beside.is_near_chance:
        return _NEAR_CHANCE
    if beside.is_selection:
        return "runs failed, the rest is a selection, and no number of seeds would tell"
    if beside.test.is_decided:
        return "decided"
    if beside.difference.low95 is None:
        return f"{MIN_SEEDS} seeds that differ are the least to plan from"
    return describe_plan(beside.test, beside.design)


_NEAR_CHANCE = (
    "the margin is wider than a tenth of the baseline's mean: near to chance, or with the margin in another unit "
    "(half a point of a fraction is 0.005), no number of seeds would tell"
)


def verdict_in_words(beside: Beside, is_one_sided: bool) -> str:
    outcome = beside.test.outcome
    return _OF_LOSSES.get(outcome, outcome) if is_one_sided else outcome


def _what_changes(beside: Beside, sign: str) -> str:
    """Tell which margin would have another answer, or what must be mended first."""
    if beside.is_selection:
        return "runs that do not fail"
    if beside.is_near_chance:
        return "a baseline farther from chance, or a narrower margin"
    if beside.holds_from is None:
        return "more seeds"
    if beside.test.outcome.startswith("equivalent"):
        return f"a margin below {sign}{beside.holds_from:.2g}"
    return f"a margin above {sign}{beside.holds_from:.2g}, chosen before the runs"


def page(verdict: TableVerdict, name: str) -> str:
    """Return one HTML file that loads nothing; `name` is that of the table."""
    loader = jinja2.FileSystemLoader([TEMPLATES, TEMPLATES / "template"])
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=shown_value
    )
    return environment.get_template("table.html.j2").render(
        name=name,
        verdict=verdict,
        asked=verdict.question,
        question=question(verdict),
        how=how(verdict),
        rows=shown(verdict),
    )
