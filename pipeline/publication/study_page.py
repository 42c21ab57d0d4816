"""Write the page of a published study for GitHub: its first screen in Markdown, and its figure."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.publication.archive import ARCHIVE, FIGURE, OVERLAY, PAGE
from pipeline.report.figures import answer_figure
from pipeline.report.pages import markdown_environment
from pipeline.report.reporting import contents, readable_names
from pipeline.report.results import Results

_ENGINES = {"keras": "Keras", "tensorflow": "TensorFlow", "jax": "JAX"}


def study_page(results: Results, archive: Path) -> dict[str, str]:
    """Return, by file name, the text of the page and, if there is anything to draw, of its figure."""
    values = contents(results)
    with zipfile.ZipFile(archive) as file:
        has_overlay = OVERLAY in file.namelist()
    charts = {each["title"]: each["charts"] for each in values["benchmarks"] if each["charts"]}
    if values["widths"]:
        charts = {"A dense network by its width": values["widths"]}
    page = (
        markdown_environment(readable_names(results))
        .get_template("study.md.j2")
        .render(
            values,
            archive_name=ARCHIVE,
            folder=archive.parent.name,
            sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
            figure=FIGURE if charts else None,
            overlay=OVERLAY if has_overlay else None,
            own_code=sorted(
                {
                    each.model.source
                    for each in results.study.benchmarks.values()
                    if not each.model.source.startswith("pipeline/")
                }
            ),
            software=list(dict.fromkeys(map(software, results.environments))),
            commits=list(dict.fromkeys(str(each["git_commit"] or "unknown") for each in results.environments)),
            uncommitted=sorted({name for each in results.environments for name in each.get("git_changed", [])}),
        )
    )
    return {PAGE: page} | ({FIGURE: answer_figure(charts)} if charts else {})


def software(environment: Mapping[str, Any]) -> str:
    """Name the software of an environment, as in "Keras 3.12.0, TensorFlow 2.21.0, Python 3.11.2"."""
    driver = [f"driver {environment['driver']}"] if environment["driver"] else []
    return ", ".join([engine(environment), f"Python {environment['python']}", *driver])


def engine(environment: Mapping[str, Any]) -> str:
    """Name the engine of an environment with its versions, as in "Keras 3.12.0, TensorFlow 2.21.0"."""
    packages = environment["packages"]
    return ", ".join(f"{title} {packages[name]}" for name, title in _ENGINES.items() if name in packages)
