"""Lay out what every machine found about every claim: claims as rows, published studies as columns."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pipeline.claims.schema import Claims
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt

_CLAIM = re.compile("[a-z0-9-]{1,100}")
NO_EVIDENCE, COMPILED = "none", "compiled"
SETTLED = ("reproduced", "in direction only", "not reproduced")


class Cell(NamedTuple):
    """Hold one verdict: on what evidence, where its report shows it, and today's verdict where that is another."""

    verdict: str
    evidence: str
    found: str
    href: str
    today: str | None


class Column(NamedTuple):
    """Hold what one study, or one compiler, found; `cells` by claim. `href` leads to all of it.

    A compiler's column is about hardware that nothing ran on, and has no date.
    """

    name: str
    device: str
    date: str
    about: str
    href: str
    cells: Mapping[str, Cell]
    is_compiled: bool = False


class ClaimRow(NamedTuple):
    """Hold a claim: its source and words, whether we ask it beyond that source, and a cell or None for each column.

    It is settled on `num_settled` devices, and holds on `num_holding` of them.
    """

    claim: str
    source: str
    statement: str
    published: str
    asked_by_us: bool
    cells: list[Cell | None]
    num_holding: int
    num_settled: int

    @property
    def is_definition(self) -> bool:
        return any(cell.verdict == "definition" for cell in self.cells if cell)

    @property
    def evidence(self) -> list[str]:
        return sorted({cell.evidence for cell in self.cells if cell})


def cells_of(verdicts: Sequence[Mapping[str, Any]], today: Mapping[str, str], page: str) -> dict[str, Cell]:
    """Return the cells of a study by claim. `page` is the address of its report; `today` has verdicts of today.

    Raises:
        InputError: a claim has a name that no address can have.
    """
    cells = {}
    for verdict in verdicts:
        name = verdict["id"]
        if not _CLAIM.fullmatch(name):
            raise InputError(f"{page}: a claim is named {excerpt(name)!a}. Names have small letters, digits and -")
        evidence = verdict.get("evidence") or NO_EVIDENCE
        now = today.get(name)
        cells[name] = Cell(
            verdict=verdict["verdict"],
            evidence=evidence,
            found=(verdict["measured"] if evidence != NO_EVIDENCE else verdict["reason"]) or verdict["reason"],
            href=f"{page}#claim-{name}",
            today=now if now != verdict["verdict"] else None,
        )
    return cells


def rows_of(columns: Sequence[Column], claims: Claims, verdicts: Sequence[Mapping[str, Any]]) -> list[ClaimRow]:
    """Return a row for each claim that a column judges: this project's claims in their order, then those of others.

    `columns` stand latest first: of several studies on one device the latest counts that settles the claim.
    """
    texts = {
        verdict["id"]: (verdict["source"], verdict["id"], verdict["published"], verdict["said_by"] == "us")
        for verdict in verdicts
    }
    ours = {
        claim.id: (claim.source, claim.statement, claim.published, claim.said_by == "us") for claim in claims.claims
    }
    order = [*ours, *(name for name in texts if name not in ours)]
    judged = [name for name in order if any(name in column.cells for column in columns)]
    texts |= ours
    return [_row(name, *texts[name], columns) for name in judged]


def _row(name: str, source: str, statement: str, published: str, by_us: bool, columns: Sequence[Column]) -> ClaimRow:
    settled: dict[str, str] = {}
    for column in columns:
        cell = column.cells.get(name)
        # What a compiler says of other hardware settles nothing on the device of a study that quotes it.
        if cell and cell.verdict in SETTLED and (cell.evidence == COMPILED) == column.is_compiled:
            settled.setdefault(column.device, cell.verdict)
    cells = [column.cells.get(name) for column in columns]
    holding = list(settled.values()).count("reproduced")
    return ClaimRow(name, source, statement, published, by_us, cells, holding, len(settled))


def by_source(rows: Sequence[ClaimRow], claims: Claims) -> dict[str, list[ClaimRow]]:
    """Return the rows by the title of their source, in the order of the project's sources."""
    names = [*claims.sources, *(row.source for row in rows)]
    titles = {name: claims.sources[name].title if name in claims.sources else name for name in names}
    found = {titles[name]: [row for row in rows if row.source == name] for name in dict.fromkeys(names)}
    return {title: of_source for title, of_source in found.items() if of_source}


def changes(row: ClaimRow, columns: Sequence[Column]) -> list[str]:
    """Say in words where a verdict changed from one campaign to the next of the same profile and device.

    `columns` stand latest first.
    """
    series: dict[tuple[str, str], list[tuple[Column, Cell]]] = {}
    for column, cell in reversed(list(zip(columns, row.cells, strict=True))):
        if cell:
            series.setdefault((column.device, column.about), []).append((column, cell))
    return [
        f"{device}, {about}: {before.verdict} on {first.date}, {after.verdict} on {second.date}"
        for (device, about), points in series.items()
        for (first, before), (second, after) in pairwise(points)
        if before.verdict != after.verdict
    ]
