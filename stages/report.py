"""Render the report on the finished study, or on a published study from its archive."""

import argparse
import tempfile
from pathlib import Path

import nbformat

from pipeline.files.places import CLAIMS, PARAMS, REPORT
from pipeline.files.writing import write_whole
from pipeline.report.rendering import execute, render
from stages import run, unedited

EXPLORABLE = Path("results/report.ipynb")  # the notebook behind the report: every cell can be edited and run again
RECOMPUTED = Path("recomputed.html")


def main(arguments: argparse.Namespace) -> None:
    if arguments.archive:
        report_on(arguments.archive)
        return
    with unedited(PARAMS, CLAIMS):
        notebook = execute(Path())
    nbformat.write(notebook, EXPLORABLE)
    REPORT.write_text(render(notebook), encoding="utf-8")
    print(f"{REPORT} is written, and {EXPLORABLE} to explore")


def report_on(archive: Path) -> None:
    """Write the report on the study in `archive`, from its raw records and this project's claims."""
    from pipeline.publication.archive import recompute  # few commands need it

    with tempfile.TemporaryDirectory() as root:
        results = recompute(archive, Path(root))
        write_whole(RECOMPUTED, render(execute(Path(root))))
    print(f"{RECOMPUTED} is written, from the {len(results.tables.runs)} runs in {archive}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.report", description=__doc__)
    parser.add_argument(
        "--from", dest="archive", type=Path, metavar="STUDY", help="an archive: docs/reports/h200/study.zip"
    )
    run(main, parser)
