"""Show the verdict on a table: as cells for the terminal, and as a page in one file."""

import math

from pipeline.report.pages import page_environment
from pipeline.run_table.table_verdict import Judged, failures_said, outcome_name, question, said_of
from pipeline.statistics.intervals import Estimate
from pipeline.words.numbers import UNKNOWN, decimals, interval
from pipeline.words.sentences import sentence


def cells(judged: Judged) -> tuple[list[str], list[list[str]]]:
    """Return the columns of the table and one row per variant. The margin determines the number of decimals."""
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
    """Write a value and its interval, as in "−0.12 [−0.40, +0.16]"."""
    return "unknown" if estimate.value is None else f"{decimals(estimate.value, how)}{unit} {interval(estimate, how)}"


def page(judged: Judged, name: str) -> str:
    """Return one HTML file that loads no other file. `name` is the table's file name."""
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
