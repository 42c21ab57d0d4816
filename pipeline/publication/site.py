"""Turn published studies into a static site: one verdict for each claim and a page of its own, a feed and a badge."""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pipeline.claims.claim import ANSWERS
from pipeline.claims.schema import Claims
from pipeline.claims.verdicts import ask
from pipeline.compiled.answers import PRECISION_WORDS
from pipeline.compiled.schema import CompiledTarget
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.files.writing import partial_of, whole
from pipeline.numbers import listed
from pipeline.publication.published import CLAIM_PAGES, COMPILED_PAGES, FILES, PAGES, Published
from pipeline.report.answers import answers
from pipeline.report.status import FOUND, VERDICTS, in_order
from pipeline.report.templates import TEMPLATES, template_environment

FOLDERS = (TEMPLATES / "site", TEMPLATES / "template", TEMPLATES)
_CLAIM = re.compile("[a-z0-9-]{1,100}")
NO_EVIDENCE, COMPILED = "none", "compiled"
STRONGEST_FIRST = ("measured", COMPILED, "counted", NO_EVIDENCE)
MAX_NAMES = 2  # of studies in a row of the table; more are counted
OPEN = ("inconclusive", "open", "not this recipe", "not testable here")


class Cell(NamedTuple):
    """Hold one verdict, on what evidence and why."""

    verdict: str
    evidence: str
    found: str
    reason: str


class Column(NamedTuple):
    """Hold what one study, or one compiler, found; `cells` by claim. `href` leads to all of it, each under its claim.

    `made` is what a compiler answered for hardware that nothing ran on; it has no date.
    """

    name: str
    device: str
    date: str
    about: str
    href: str
    cells: Mapping[str, Cell]
    made: CompiledTarget | None = None


class ClaimRow(NamedTuple):
    """Hold a source's claim, or a finding of ours beside it: its words, what is asked for it, and its one verdict.

    `source` is its title. `asked` is what is measured or counted, `threshold` the result by which it holds. `evidence`
    is what the verdict rests on, `found` what was found by it, and `because` says whose verdict it is. `studies` and
    `compilers` are those that say something, the latest first.
    """

    claim: str
    source: str
    statement: str
    asked: str
    threshold: str
    is_finding: bool
    studies: list[tuple[Column, Cell]]
    compilers: list[tuple[Column, Cell]]
    verdict: str
    evidence: str
    found: str
    because: str

    @property
    def compiled(self) -> str:
        """Say on how many devices the claim holds, of those whose compiler decides it; nothing where none was asked."""
        settled = [cell.verdict for _, cell in self.compilers if cell.verdict not in OPEN]
        if not settled:
            return "left open by compilers" if self.compilers else ""
        holding = sum(each in ("reproduced", "found") for each in settled)
        return f"compiled: holds on {holding} of {len(settled)} devices"


def one_verdict(found: Sequence[tuple[Column, Cell]]) -> tuple[str, str, str, str]:
    """Return one verdict over all studies that found something, latest first; its evidence; what; and whose it is.

    It is that of the strongest evidence; a study that has another recipe has no evidence. Where two such studies
    disagree it is inconclusive, and a finding open; one that leaves it open disagrees with none. Of a profile's
    campaigns on a device the latest counts.
    """
    latest: dict[tuple[str, str], tuple[str, Cell]] = {}
    for column, cell in found:
        latest.setdefault((column.device, column.about), (column.name, cell))
    strongest, is_open = min(_weakness(cell) for _, cell in latest.values())
    by_verdict: dict[str, dict[str, str]] = {}
    for name, cell in latest.values():
        if _weakness(cell)[0] == strongest:
            by_verdict.setdefault(cell.verdict, {})[name] = cell.found
    undecided = [] if is_open else [name for each in OPEN for name in by_verdict.pop(each, {})]
    evidence, (verdict, by_name) = STRONGEST_FIRST[strongest], next(iter(by_verdict.items()))
    words = next(iter(by_name.values()))
    if evidence == NO_EVIDENCE:
        return verdict, evidence, words, ""
    if len(by_verdict) > 1:
        told = listed(f"{each} by {_named(names)}" for each, names in by_verdict.items())
        return "open" if "found" in by_verdict else "inconclusive", evidence, f"studies disagree: {told}", ""
    others = f"; left open by {_named(undecided)}" if undecided else ""
    return verdict, evidence, words, f"by {_named(by_name)}{others}"


def _named(names: Collection[str]) -> str:
    return listed(names) if len(names) <= MAX_NAMES else f"{len(names)} studies"


def _weakness(cell: Cell) -> tuple[int, bool]:
    return STRONGEST_FIRST.index(cell.evidence), cell.verdict in OPEN


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
        evidence = found.evidence or NO_EVIDENCE
        cells[found.id] = Cell(found.verdict, evidence, text, found.reason)
    about = f"profile {published.study.name}"
    return Column(published.name, status.device, status.finished_at[:10], about, page, cells)


def compiled_columns(
    compiled: Sequence[CompiledTarget], recipes: Mapping[str, Mapping[str, Any]], claims: Claims
) -> list[Column]:
    """Return a column for each target whose compiler, asked alone, decides at least one of the claims.

    Args:
        recipes: those that were compiled, by benchmark.
    """
    columns = []
    for made in compiled:
        evidence: Any = SimpleNamespace(compiled=[made], recipes=recipes, variants=claims.variants)
        cells = {}
        for claim in claims.all:
            if "compiled" in claim.judges and (found := ask("compiled", claim, evidence)).evidence:
                text = (found.measured or found.reason).removeprefix(f"{made.title}: ")  # which stands above it
                verdict = ANSWERS[found.verdict] if claim in claims.findings else found.verdict
                cells[claim.id] = Cell(verdict, COMPILED, text, found.reason)
        about = f"compiled by JAX {made.versions['jax']}" if "jax" in made.versions else "compiled"
        if cells:
            page = f"{COMPILED_PAGES}/{made.target}.html"
            columns.append(Column(made.target, made.title, "", about, page, cells, made))
    return columns


def rows_of(
    studies: Sequence[Published], columns: Sequence[Column], compiled: Sequence[Column], claims: Claims
) -> list[ClaimRow]:
    """Return a row for each claim that somebody judges: this project's in their order, then those of others.

    `studies` and their `columns` stand latest first.
    """
    titles = {name: source.title for name, source in claims.sources.items()}
    told = {
        each.id: (titles.get(each.source, each.source), each.id, each.asked, each.threshold, each.is_finding)
        for study in studies
        for each in study.verdicts
    }
    ours = {each.id: (titles[each.source], each.statement, *each.asked, each in claims.findings) for each in claims.all}
    rows = []
    for name in [*ours, *(name for name in told if name not in ours)]:
        found, compilers = ([(of, of.cells[name]) for of in some if name in of.cells] for some in (columns, compiled))
        if found or compilers:
            rows.append(
                ClaimRow(name, *(ours.get(name) or told[name]), found, compilers, *one_verdict(found or compilers))
            )
    return rows


def by_source(rows: Sequence[ClaimRow], claims: Claims) -> dict[str, list[ClaimRow]]:
    """Return the rows by the title of their source, in the order of the project's sources."""
    titles = dict.fromkeys([*(source.title for source in claims.sources.values()), *(row.source for row in rows)])
    found = {title: [row for row in rows if row.source == title] for title in titles}
    return {title: of_source for title, of_source in found.items() if of_source}


def training_seconds(published: Published) -> float:
    """Return the seconds that all completed runs of a study train for, if their epochs take as long as in its turns."""
    study = published.study
    return sum(
        each.completed.count
        * study.benchmarks[each.benchmark].num_epochs_of(study.variants[each.variant])
        * (each.turn_epoch_seconds or 0.0)
        for each in published.comparison.variants
    )


def build_site(
    published: Sequence[Published], site: Path, address: str, claims: Claims, compiled: Sequence[Column] = ()
) -> None:
    """Write the site of the studies to the folder `site`.

    Args:
        published: the studies, in any order.
        site: a folder that is replaced.
        address: where the site will stand; the feed needs it to name its entries.
        claims: this project's, whose words the rows of the table have.
        compiled: what the compilers of other hardware say.
    """
    if not published:
        raise InputError("no study is published yet. Publish the finished one: make publish TO=docs/reports/NAME")
    for path in (site.resolve(), partial_of(site.resolve())):
        for folder in (study.folder.resolve() for study in published):
            if path.is_relative_to(folder) or folder.is_relative_to(path):
                raise InputError(f"{site} would take the place of the published study {folder}. Name another folder")
    studies = sorted(published, key=lambda study: (study.status.finished_at, study.name), reverse=True)
    columns = [column_of(study) for study in studies]
    rows = rows_of(studies, columns, compiled, claims)
    longest = max(studies, key=training_seconds)
    environment = template_environment(FOLDERS, longest.study, claims, {})
    environment.globals |= {
        "studies": studies,
        "columns": columns,
        "compiled": compiled,
        "address": address.rstrip("/"),
        "rows": rows,
        "answers": answers,
        "groups": by_source(rows, claims),
        "counts": in_order(VERDICTS, (row.verdict for row in rows)),
        "answer_counts": in_order(FOUND, (row.verdict for row in rows)),
    }
    with whole(site) as partial:

        def write(name: str, template: str, **values: Any) -> None:
            path = partial / name
            path.parent.mkdir(exist_ok=True)
            text = environment.get_template(template).render(values, root="../" * name.count("/"))
            path.write_text(text, encoding="utf-8")

        partial.mkdir()
        for name in PAGES:
            write(name, f"{name}.j2", longest=longest)
        for row in rows:
            write(f"{CLAIM_PAGES}/{row.claim}.html", "claim.html.j2", row=row)
        for column in compiled:
            if made := column.made:
                write(column.href, "target.html.j2", column=column, made=made, precision_words=PRECISION_WORDS)
                told = made.model_dump_json(indent=2) + "\n"
                (partial / COMPILED_PAGES / f"{column.name}.json").write_text(told, encoding="utf-8")
        for study in studies:
            (partial / study.name).mkdir()
            for name in FILES:  # and nothing else that a stranger's folder holds or links to
                shutil.copyfile(study.folder / name, partial / study.name / name, follow_symlinks=False)
