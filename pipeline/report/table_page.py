"""Tell the verdict on a table of runs, in the words and the look of the report's first screen."""

import math
from typing import NamedTuple

from pipeline.claims.wording import count_seeds, describe_plan, describe_ratio
from pipeline.comparison.run_table import Beside, Question, Row, TableVerdict
from pipeline.numbers import UNKNOWN, decimals, digits, estimate, listed
from pipeline.report.templates import TEMPLATES, page_environment
from pipeline.statistics.intervals import MIN_SEEDS

# Where gains are ignored, one may be large: "equivalent" would be wrong.
_OF_LOSSES = {"equivalent": "no worse", "equivalent but shifted": "slightly worse", "different": "worse"}
_MEANS = {
    "equivalent": "it {differs} by less than {margin}, if at all",
    "equivalent but shifted": "it {differs}, by less than {margin}",
    "beyond": "it {differs} by more than {margin}",
    "different": "it {differs}, and maybe by more than {margin}",
    "inconclusive": "these runs show neither that it {differs}, nor that it {differs} by less than {margin}",
}
# The report's colours of verdicts.
_COLOURS = {
    "equivalent": "reproduced",
    "equivalent but shifted": "in-direction-only",
    "different": "not-reproduced",
    "inconclusive": "inconclusive",
}


class Candidate(NamedTuple):
    """Hold a verdict, its meaning, and sentences on what the runs could show and what would change the answer."""

    variant: str
    verdict: str
    colour: str
    means: str
    sentences: list[str]


class Told(NamedTuple):
    """Hold the words of the terminal and the page: a table, the baseline first, and what belongs under it."""

    question: str
    how: str
    columns: list[str]
    rows: list[list[str]]
    failures: list[str]
    candidates: list[Candidate]


def tell(verdict: TableVerdict) -> Told:
    """Return the verdict in words. Numbers have the digits that the margin asks for."""
    asked = verdict.question
    ask = f"at most {asked.margin:g} worse than" if asked.is_one_sided else f"within ±{asked.margin:g} of"
    has_seconds = any(row.beside and row.beside.speed.ratio is not None for row in verdict.rows)
    columns = ["variant", "verdict", asked.metric, "difference [95 %]"] + ["speed [95 %]"] * has_seconds
    return Told(
        question=f"Is the {asked.metric} {ask} that of {asked.baseline}?",
        how=_how(verdict),
        columns=columns,
        rows=[_cells(row, asked)[: len(columns)] for row in verdict.rows],
        failures=[_failures(row) for row in verdict.rows if row.failures],
        candidates=[_candidate(row.variant, row.beside, asked) for row in verdict.rows if row.beside],
    )


def page(told: Told, name: str) -> str:
    """Return one HTML file that loads nothing; `name` is that of the table."""
    environment = page_environment([TEMPLATES, TEMPLATES / "template"])
    return environment.get_template("table.html.j2").render(told._asdict(), name=name)


def _how(verdict: TableVerdict) -> str:
    """Tell how runs were compared."""
    pairing = "Runs are not paired, because seeds differ between variants (Welch's test)"
    if verdict.is_paired:
        pairing = f"Runs are paired by seed ({count_seeds(verdict.rows[0].failed.total)})"
    holm = f", {len(verdict.rows) - 1} candidates adjusted by Holm's method" if len(verdict.rows) > 2 else ""
    return f"{pairing}{holm}; {'lower' if verdict.question.is_lower_better else 'higher'} is better."


def _cells(row: Row, asked: Question) -> list[str]:
    places = max(0, 2 - math.ceil(math.log10(asked.margin)))
    mean = UNKNOWN if row.mean.mean is None else decimals(row.mean.mean, f".{places}f")
    if not row.beside:
        return [row.variant, "", mean, "baseline", UNKNOWN]
    found, speed = row.beside.difference, row.beside.speed
    difference = estimate(found.mean, found.low95, found.high95, f"+.{places}f", "")
    return [row.variant, _verdict(row.beside, asked), mean, difference, describe_ratio(speed)]


def _verdict(beside: Beside, asked: Question) -> str:
    return (_OF_LOSSES if asked.is_one_sided else {}).get(beside.test.outcome, beside.test.outcome)


def _failures(row: Row) -> str:
    kinds = listed(f"{count} {how}" for how, count in row.failures.items())
    low, high = 100 * row.failed.low, 100 * row.failed.high
    share = estimate(100 * row.failed.count / row.failed.total, low, high, ".0f", " %")
    return f"{row.variant}: {row.failed.count} of {row.failed.total} runs failed ({kinds}): {share}."


def _candidate(name: str, beside: Beside, asked: Question) -> Candidate:
    outcome = "beyond" if beside.test.is_beyond else beside.test.outcome
    means = _MEANS[outcome].format(differs="loses" if asked.is_one_sided else "differs", margin=f"{asked.margin:g}")
    sentences = _what_changes(beside)
    if beside.test.detectable_margin_pp:
        shown = digits(beside.test.detectable_margin_pp)
        sentences.insert(0, f"Without any difference, this many seeds would show a margin of {shown} in 4 of 5 tries.")
    return Candidate(name, _verdict(beside, asked), _COLOURS[beside.test.outcome], means, sentences)


def _what_changes(beside: Beside) -> list[str]:
    """Tell how many seeds would decide, where it is open; and which margin would have another answer."""
    if beside.is_open_because == "runs failed":
        return ["Runs failed. The rest is a selection: whatever their number, it is never equivalent."]
    if beside.is_open_because:
        return [
            "The margin is wider than a tenth of the baseline's mean. Near chance all is equivalent, so nothing "
            "is shown. Is the margin in the metric's unit? Half a point of a fraction is 0.005."
        ]
    if beside.holds_from is None:
        return [f"It takes {MIN_SEEDS} seeds or more, whose differences are not all alike."]
    holds_from = digits(beside.holds_from)
    if beside.test.outcome.startswith("equivalent"):
        return [f"A margin below {holds_from} would change the answer."] if beside.holds_from else []
    change = f"A margin above {holds_from} would change the answer, if it had been chosen before the runs."
    return (
        [change] if beside.test.is_decided else [f"{describe_plan(beside.test, beside.design).capitalize()}.", change]
    )
