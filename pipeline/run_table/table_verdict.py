"""Judge a user's table of runs by the rules for studies, and present the verdict as sentences, a table and a page."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.comparison.pairing import Question, Side, set_beside, sides_of
from pipeline.comparison.tables import Row
from pipeline.report.pages import page_environment
from pipeline.statistics.equivalence import is_beyond, paired, unpaired
from pipeline.statistics.intervals import Estimate, proportion
from pipeline.words.numbers import UNKNOWN, decimals, interval
from pipeline.words.sentences import Said, sentence


class Judged(NamedTuple):
    """Hold the verdict on a table.

    `rows` has one row per variant, the baseline first. Each row has the variant's number of runs, the number of
    failures by outcome, and the mean result. The row of a candidate also has the speedup, and the fields that
    `set_beside` returns, in the metric's unit.
    """

    metric: str
    baseline: str
    asked: Question
    rows: list[dict[str, Any]]

    @property
    def candidates(self) -> list[dict[str, Any]]:
        return self.rows[1:]

    @property
    def status(self) -> int:
        """Return the exit status: 20 if any candidate is different, else 30 if any is inconclusive, else 0."""
        outcomes = {row["outcome"] for row in self.candidates}
        return 20 if "different" in outcomes else 30 if "inconclusive" in outcomes else 0


def judge_table(runs: Sequence[Row], metric: str, baseline: str, asked: Question) -> Judged:
    """Compare each candidate with the baseline. Holm's method adjusts the p-values over all candidates."""
    variants: dict[str, dict[Any, Row]] = {}
    for place, run in enumerate(runs):
        # A failed run counts as a failure even if its seed was run again and completed.
        seed = run.seed if run.outcome == "completed" else (run.seed, place)
        variants.setdefault(run.variant, {})[seed] = run
    names = [baseline, *(name for name in variants if name != baseline)]
    pairs = [(baseline, name) for name in names[1:]]
    compared = set_beside(variants, pairs, [0] * len(pairs), [len(pairs)] * len(pairs), asked)
    rows = [_of_variant(baseline, variants[baseline])]
    for (_, name), found in zip(pairs, compared, strict=True):
        speedup = _speedup(*sides_of(variants[baseline], variants[name]))
        rows.append(_of_variant(name, variants[name]) | found | {"speedup": speedup})
    return Judged(metric, baseline, asked, rows)


def _of_variant(name: str, runs: Mapping[str, Row]) -> dict[str, Any]:
    results = [run.result for run in runs.values() if run.result is not None]
    failures = Counter(run.outcome for run in runs.values() if run.outcome != "completed")
    return {
        "variant": name,
        "num_runs": len(runs),
        "failures": dict(failures),
        "mean": float(np.mean(results)) if results else None,
    }


def _speedup(theirs: Side, ours: Side) -> Estimate:
    """Return the candidate's speedup over the baseline, from the seconds that the user's table gives for each run."""
    if theirs.shared == ours.shared:
        both = [(theirs.runs[seed].seconds, ours.runs[seed].seconds) for seed in theirs.shared]
        logarithms = paired([math.log(a / b) for a, b in both if a and b])
    else:
        own, other = (
            np.array([math.log(run.seconds) for run in side.runs.values() if run.seconds]) for side in (ours, theirs)
        )
        logarithms = unpaired(own, other)
    return logarithms.estimate.mapped(math.exp)


def question(judged: Judged) -> Said:
    numbers = {"metric": judged.metric, "baseline": judged.baseline}
    return Said("table.question", numbers | judged.asked._asdict())


def said_of(judged: Judged, row: Mapping[str, Any]) -> list[Said]:
    """Return the sentences on a candidate: verdict, seeds needed, possible loss, pairing, missing seeds."""
    numbers = {"baseline": judged.baseline, **judged.asked._asdict(), **row}
    outcome = "beyond" if is_beyond(row["p_beyond_margin"]) and not row["reason"] else row["outcome"]
    found = [Said(f"table.{outcome.replace(' ', '_')}", numbers)]
    if row["reason"] and outcome == "inconclusive":
        found = [Said(f"table.{row['reason']}", numbers)]
    elif row["num_seeds_needed"]:
        found.append(Said("table.needed", numbers))
    if row["most_loss"] is not None:
        found.append(Said("table.loss", numbers | {"gain": _gain(judged, row), "num_losses": len(judged.candidates)}))
    if row["num_seeds"]:
        found.append(Said("table.pairing", numbers))
    for side, name in (("baseline", judged.baseline), ("candidate", row["variant"])):
        if row["is_paired"] and (missing := row[f"missing_{side}"]):
            found.append(Said("table.missing", {"variant": name, "seeds": missing}))
    return found


def _gain(judged: Judged, row: Mapping[str, Any]) -> Estimate:
    """Return the difference between candidate and baseline, with a sign that makes a loss negative."""
    difference: Estimate = row["difference"]
    if not judged.asked.is_lower_better or not difference.has_interval:
        return difference
    low, value, high = (-(number or 0.0) for number in (difference.high, difference.value, difference.low))
    return Estimate(value, low, high)


def failures_said(judged: Judged) -> list[Said]:
    """Return, for each variant with failed runs, a sentence on the number of these runs and their outcomes."""
    found = []
    for row in judged.rows:
        if row["failures"]:
            part, total = sum(row["failures"].values()), row["num_runs"]
            numbers = {"part": part, "total": total, "share": proportion(part, total)}
            found.append(Said("table.failures", row | numbers))
    return found


def outcome_name(judged: Judged, row: Mapping[str, Any]) -> Said:
    return Said("table.outcome", {"outcome": row.get("outcome"), "is_one_sided": judged.asked.is_one_sided})


def cells(judged: Judged) -> tuple[list[str], list[list[str]]]:
    """Return the column names of the table, and the cells of one row per variant.

    The margin determines the number of decimals.
    """
    places = max(0, 2 - math.ceil(math.log10(judged.asked.margin)))
    has_speed = any(row["speedup"].value is not None for row in judged.candidates)
    rows = []
    for row in judged.rows:
        mean = UNKNOWN if row["mean"] is None else decimals(row["mean"], f".{places}f")
        if "outcome" not in row:
            rows.append([row["variant"], "", mean, "baseline", UNKNOWN])
            continue
        difference, speed = in_cell(row["difference"], f"+.{places}f"), in_cell(row["speedup"], ".2f", "×")
        rows.append([row["variant"], sentence(outcome_name(judged, row)), mean, difference, speed])
    columns = ["variant", "verdict", judged.metric, "difference [95 %]"] + ["speed [95 %]"] * has_speed
    return columns, [row[: len(columns)] for row in rows]


def in_cell(estimate: Estimate, how: str, unit: str = "") -> str:
    """Write a value and its interval, as in "−0.12 [−0.40, +0.16]", or "unknown" if there is no value."""
    return "unknown" if estimate.value is None else f"{decimals(estimate.value, how)}{unit} {interval(estimate, how)}"


def page(judged: Judged, name: str) -> str:
    """Return the text of an HTML page that loads no other file. `name` is the file name of the user's table."""
    columns, rows = cells(judged)
    return (
        page_environment()
        .get_template("table.html.j2")
        .render(
            name=name,
            question=question(judged),
            columns=columns,
            rows=rows,
            candidates=[(row, outcome_name(judged, row), said_of(judged, row)) for row in judged.candidates],
            failures=failures_said(judged),
        )
    )
