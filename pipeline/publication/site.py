"""Turn published studies into a static site: the matrix of claims, a page for each, a feed and a badge."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.claims.schema import Claims
from pipeline.compiled.answers import PRECISION_WORDS
from pipeline.errors import InputError
from pipeline.files.writing import partial_of, whole
from pipeline.publication.matrix import Column, by_source, column_of, rows_of
from pipeline.publication.published import CLAIM_PAGES, COMPILED_PAGES, FILES, PAGES, Published
from pipeline.report.answers import answers
from pipeline.report.status import FOUND, VERDICTS, in_order
from pipeline.report.templates import TEMPLATES, template_environment

FOLDERS = (TEMPLATES / "site", TEMPLATES / "template", TEMPLATES)


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
    environment = template_environment(FOLDERS, longest.study, claims)
    environment.globals |= {
        "studies": studies,
        "columns": [column_of(study) for study in studies],
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
