"""The README's tables and its picture are those of published reports; UPDATE_README=1 makes them anew."""

import os
import re
from pathlib import Path

import pytest
from conftest import REPOSITORY

from pipeline.publication.published import unpack
from pipeline.publication.recomputing import remake
from pipeline.report.answers import COLUMNS, AnswerRow, answers
from pipeline.report.figures import answer_charts
from pipeline.report.reporting import accuracy_curves
from pipeline.report.results import Results, load_results
from pipeline.report.words import benchmark_name

REPORTS = REPOSITORY / "docs" / "reports"
SHOWN = {"mnist_dense_scheduled": "float8-2-cores", "cifar100_efficientnet_b0": "evening-2-cores"}  # benchmark: study
README, PICTURE = REPOSITORY / "README.md", REPOSITORY / "docs" / "answer.svg"
TABLE = re.compile(r"(?<=\n)\| variant \| test accuracy \|.*\n(?:\|.*\n)+")
UPDATE = bool(os.environ.get("UPDATE_README"))
SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')
GAP, HEADING = 20, 24
# Text and lines of a chart take the colour of what is around it: an image has no page around it.
COLOURS = "svg{color:#1f2328;background:#fff}@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}"


@pytest.fixture(scope="module")
def studies(tmp_path_factory) -> dict[str, Results]:
    """Return the study of each benchmark that is shown."""
    found = {}
    for benchmark, name in SHOWN.items():
        root = Path(tmp_path_factory.mktemp(name), "study")
        unpack(REPORTS / name / "crate.zip", root)
        remake(root)
        found[benchmark] = load_results(root)
    return found


def first_rows(results: Results, benchmark: str) -> list[AnswerRow]:
    return [row for row in answers(results, benchmark) if row.is_first]


def test_its_tables_are_those_of_published_studies(studies):
    tables = []
    for benchmark, results in studies.items():
        rows = [[row.words, *row.cells.values()] for row in first_rows(results, benchmark)]
        headings = ["variant", *COLUMNS.values()]
        lines = [f"| {' | '.join(cells)} |\n" for cells in (headings, *rows)]
        tables.append("".join([lines[0], "|---" * len(headings), "|\n", *lines[1:]]))
    if UPDATE:
        made = iter(tables)
        written = TABLE.sub(lambda _: next(made), README.read_text(encoding="utf-8"))
        README.write_text(written, encoding="utf-8")
    assert TABLE.findall(README.read_text(encoding="utf-8")) == tables


def test_its_picture_is_of_published_studies(studies):
    """Each benchmark has a row: the time of an epoch beside accuracy by epoch."""
    drawn = picture(studies)
    if UPDATE:
        PICTURE.write_text(drawn, encoding="utf-8")
    assert PICTURE.read_text(encoding="utf-8") == drawn


def picture(studies: dict[str, Results]) -> str:
    """Return the first two charts of every benchmark's answer as one SVG file."""
    inside, top, right = [], 0.0, 0.0
    for benchmark, results in studies.items():
        name = benchmark_name(results.study, benchmark)
        inside.append(f'<text x="0" y="{top + 12:.1f}" font-size="11" fill="currentColor">{name}</text>')
        charts = answer_charts(benchmark, name, first_rows(results, benchmark), accuracy_curves(results, benchmark))
        left = bottom = 0.0
        for chart in charts[:2]:
            found = SIZE.search(chart)
            assert found
            width, height = map(float, found.groups())
            placed = f'x="{left:.1f}" y="{top + HEADING:.1f}" width="{width}" height="{height}"'
            inside.append(SIZE.sub(placed, chart, count=1))
            left, bottom = left + width + GAP, top + HEADING + height
        top, right = bottom + GAP, max(right, left - GAP)
    size = f'width="{right:.0f}" height="{top:.0f}" viewBox="-6 -4 {right + 12:.1f} {top:.1f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {size} '
        f'font-family="DejaVu Sans, sans-serif"><style>{COLOURS}</style>\n' + "\n".join(inside) + "\n</svg>\n"
    )
