"""Lay out what is known of every claim: claims as rows, and a column for each published study and each compiler."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pipeline.claims.claim import Assessment
from pipeline.claims.guards import recipe_differences
from pipeline.claims.schema import Claim, Claims
from pipeline.compiled.schema import CompiledProgram, CompiledTarget
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.published import COMPILED_PAGES, Published
from pipeline.study.variant import Variant

_CLAIM = re.compile("[a-z0-9-]{1,100}")
NO_EVIDENCE, COMPILED = "none", "compiled"
SETTLED = ("reproduced", "in direction only", "not reproduced")
Recipes = Mapping[str, Mapping[str, Any]]


class Cell(NamedTuple):
    """Hold one verdict, on what evidence, and where its report shows it."""

    verdict: str
    evidence: str
    found: str
    href: str


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


class TargetPage(NamedTuple):
    """Hold a target's column, all that its compiler answered, and the reason of each verdict by claim."""

    column: Column
    made: CompiledTarget
    reasons: Mapping[str, str]

    @property
    def steps(self) -> list[CompiledProgram]:
        """List the training steps that were compiled, the smaller before the larger."""
        return sorted(self.made.programs, key=lambda step: (step.benchmark, step.numbers, step.batch_size))


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


def column_of(published: Published) -> Column:
    """Return the column of a study.

    Raises:
        InputError: a claim has a name that no address can have.
    """
    page, status = f"{published.name}/report.html", published.status
    cells = {}
    for found in published.verdicts:
        if not _CLAIM.fullmatch(found.id):
            raise InputError(f"{page}: a claim is named {excerpt(found.id)!a}. Names have small letters, digits and -")
        text = (found.evidence and found.measured) or found.reason
        cells[found.id] = Cell(found.verdict, found.evidence or NO_EVIDENCE, text, f"{page}#claim-{found.id}")
    about = f"profile {published.study.profile}"
    return Column(published.name, status.device, status.finished_at[:10], about, page, cells)


class _Compiled(NamedTuple):
    """Hold the part of the evidence that judges by compilers read."""

    compiled: Sequence[CompiledTarget]
    recipes: Recipes
    variants: Mapping[str, Variant]


def target_pages(compiled: Sequence[CompiledTarget], recipes: Recipes, claims: Claims) -> list[TargetPage]:
    """Return a page for each target whose compiler, asked alone, decides at least one of the claims.

    Args:
        recipes: those that were compiled, by benchmark.
    """
    pages = []
    for made in compiled:
        page = f"{COMPILED_PAGES}/{made.target}.html"
        asked = {claim.id: _judge(claim, claims, made, recipes) for claim in claims.claims}
        found = {name: assessment for name, assessment in asked.items() if assessment}
        cells = {
            # The name of the target stands above it.
            name: Cell(verdict, COMPILED, (measured or reason).removeprefix(f"{made.title}: "), f"{page}#claim-{name}")
            for name, (verdict, reason, measured) in found.items()
        }
        about = f"compiled by JAX {made.versions['jax']}" if "jax" in made.versions else "compiled"
        if cells:
            column = Column(made.target, made.title, "", about, page, cells, is_compiled=True)
            pages.append(TargetPage(column, made, {name: each.reason for name, each in found.items()}))
    return pages


def _judge(claim: Claim, claims: Claims, made: CompiledTarget, recipes: Recipes) -> Assessment | None:
    """Judge a claim by what one target's compiler says; None where that decides nothing about it."""
    judge = claim.judges.get("compiled")
    if judge is None or recipe_differences(claim, recipes.get(getattr(claim, "benchmark", ""), {}), ""):
        return None
    found = judge.ask(_Compiled([made], recipes, claims.variants))
    return found if isinstance(found, Assessment) else None


def rows_of(columns: Sequence[Column], claims: Claims, published: Sequence[Published]) -> list[ClaimRow]:
    """Return a row for each claim that a column judges: this project's claims in their order, then those of others.

    `columns` stand latest first: of several studies on one device the latest counts that settles the claim.
    """
    ours = {each.id: (each.source, each.statement, each.published, each.said_by == "us") for each in claims.claims}
    theirs = {
        each.id: (each.source, each.id, each.published, each.said_by == "us")
        for study in published
        for each in study.verdicts
    }
    return [
        _row(name, *text, columns)
        for name, text in (ours | {name: text for name, text in theirs.items() if name not in ours}).items()
        if any(name in column.cells for column in columns)
    ]


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
    found: dict[str, list[ClaimRow]] = {source.title: [] for source in claims.sources.values()}
    for row in rows:
        title = claims.sources[row.source].title if row.source in claims.sources else row.source
        found.setdefault(title, []).append(row)
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
