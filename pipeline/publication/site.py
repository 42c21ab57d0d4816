"""Turn published studies into a static site: the matrix of claims, a page for each, history, a feed and a badge."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.claims.schema import Claims
from pipeline.comparison.schema import Pair, VariantStatistics
from pipeline.compiled.answers import NUMBERS
from pipeline.errors import InputError
from pipeline.files.writing import partial_of, whole
from pipeline.publication.matrix import Column, by_source, changes, column_of, rows_of
from pipeline.publication.published import CLAIM_PAGES, COMPILED_PAGES, FILES, PAGES, Published
from pipeline.report import figures
from pipeline.report.answers import answers, why_not_subtracted
from pipeline.report.claim_rows import ORDER
from pipeline.report.reporting import PARTS, template_environment
from pipeline.report.words import benchmark_name

TEMPLATES = (PARTS / "site", PARTS / "template", PARTS)


class _Point(NamedTuple):
    """Hold what one study found of a pair."""

    study: Published
    pair: Pair
    variant: VariantStatistics


def build_site(
    published: Sequence[Published], site: Path, address: str, claims: Claims, compiled: Sequence[Column] = ()
) -> None:
    """Write the site of the studies to the folder `site`.

    Args:
        published: the studies, in any order.
        site: a folder that is replaced.
        address: where the site will stand; the feed needs it to name its entries.
        claims: this project's, whose words the rows of the matrix have.
        compiled: what the compilers of other hardware say.
    """
    if not published:
        raise InputError("no study is published yet. Publish the finished one: make publish TO=docs/reports/NAME")
    for path in (site.resolve(), partial_of(site.resolve())):
        for folder in (study.folder.resolve() for study in published):
            if path.is_relative_to(folder) or folder.is_relative_to(path):
                raise InputError(f"{site} would take the place of the published study {folder}. Name another folder")
    studies = sorted(published, key=lambda study: (study.status.finished_at, study.name), reverse=True)
    rows = rows_of(studies, compiled, claims)
    longest = max(studies, key=lambda study: sum(each.completed.count for each in study.comparison.variants))
    counts = Counter(row.verdict for row in rows if not row.asked_by_us)
    environment = template_environment(TEMPLATES, longest.study, claims)
    environment.globals |= {
        "studies": studies,
        "columns": [column_of(study) for study in studies],
        "compiled": compiled,
        "address": address.rstrip("/"),
        "rows": rows,
        "groups": by_source(rows, claims),
        "counts": {verdict: counts[verdict] for verdict in ORDER if counts[verdict]},
    }
    with whole(site) as partial:

        def write(name: str, template: str, **values: Any) -> None:
            path = partial / name
            path.parent.mkdir(exist_ok=True)
            text = environment.get_template(template).render(values, root="../" * name.count("/"))
            path.write_text(text, encoding="utf-8")

        partial.mkdir()
        for name in PAGES:
            write(name, f"{name}.j2", histories=histories(studies), longest=longest, answers=_answers(longest))
        for row in rows:
            write(f"{CLAIM_PAGES}/{row.claim}.html", "claim.html.j2", row=row, changes=changes(row))
        for column in compiled:
            if made := column.made:
                write(column.href, "target.html.j2", column=column, made=made, numbers=NUMBERS)
                told = made.model_dump_json(indent=2) + "\n"
                (partial / COMPILED_PAGES / f"{column.name}.json").write_text(told, encoding="utf-8")
        for study in studies:
            (partial / study.name).mkdir()
            for name in FILES:  # and nothing else that a stranger's folder holds or links to
                shutil.copyfile(study.folder / name, partial / study.name / name, follow_symlinks=False)


def _answers(study: Published) -> list[dict[str, Any]]:
    """Return the answer for each benchmark, as on the first screen of the study's report."""
    return [
        {
            "name": benchmark_name(study, benchmark),
            "advice": study.status.advice.get(benchmark, ""),
            "rows": [row for row in answers(study, benchmark) if row.is_first],
            "why_not_subtracted": why_not_subtracted(study, benchmark),
        }
        for benchmark in study.study.benchmarks
    ]


def histories(studies: Sequence[Published]) -> list[dict[str, Any]]:
    """Return speedup, accuracy difference and epoch time by campaign, for each pair.

    The first campaign gives the band.

    Studies of different profiles or devices are series of their own: their numbers do not compare. `studies` stand
    latest first.
    """
    series: dict[tuple[str, ...], list[_Point]] = {}
    for study in reversed(studies):
        for pair in study.comparison.pairs:
            key = (study.study.profile, study.status.device, pair.benchmark, pair.candidate, pair.baseline)
            variant = study.comparison.variant(pair.benchmark, pair.candidate)
            series.setdefault(key, []).append(_Point(study, pair, variant))
    return [_history(key, points) for key, points in series.items()]


def _history(key: tuple[str, ...], points: Sequence[_Point]) -> dict[str, Any]:
    profile, device, benchmark, candidate, baseline = key
    identifier = "-".join((profile, hashlib.sha256(device.encode()).hexdigest()[:8], benchmark, candidate, baseline))
    margin = points[0].pair.equivalence.margin_pp
    speedups = [point.pair.speedup for point in points]
    differences = [point.pair.accuracy_difference_pp for point in points]
    times = [point.variant.epoch_seconds for point in points]
    measures = [
        ("Speedup", "times the speed of the baseline", [(s.ratio, s.low, s.high) for s in speedups], speedups[0]),
        ("Accuracy difference", "percentage points", [(d.mean, d.low95, d.high95) for d in differences], None),
        ("Epoch time", "seconds", [(t.ratio, t.low, t.high) for t in times], times[0]),
    ]
    return {
        "title": f"{benchmark}: {candidate} against {baseline}",
        "about": f"profile {profile} on {device}",
        "rows": [
            {"study": point.study, "pair": point.pair, "epoch_seconds": point.variant.epoch_seconds.ratio}
            for point in points
        ],
        "charts": [
            figures.by_campaign(
                f"{identifier}-{what.lower().replace(' ', '-')}",
                f"{what} of {candidate}, {benchmark}",
                unit,
                intervals,
                (band.new_low, band.new_high) if band else (-margin, margin),
            )
            for what, unit, intervals, band in measures
        ],
    }
