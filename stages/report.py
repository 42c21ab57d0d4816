"""Render the report: papermill runs the notebook, nbconvert turns its output into one HTML file."""

import argparse
import json
import logging
import tempfile
from pathlib import Path

import nbformat
import papermill
from nbconvert import HTMLExporter
from traitlets.config import Config

from pipeline.headlines import headlines, outcome_counts, verdict_counts
from pipeline.results import load_results
from stages import run

NOTEBOOK = Path("report/report.ipynb")
REPORT = Path("results/report.html")
STATUS = Path("results/status.json")


def main(_: argparse.Namespace) -> None:
    results = load_results()  # faults of the input show here, with their remedy, not as a notebook's traceback
    logging.getLogger("papermill").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        executed = Path(folder, "report.ipynb")
        papermill.execute_notebook(
            NOTEBOOK,
            executed,
            {"root": str(Path.cwd())},
            progress_bar=False,
            cwd=Path.cwd(),
            config=Config({"KernelManager": {"transport": "ipc"}}),  # no open port, on a machine shared with others
        )
        notebook = nbformat.read(executed, as_version=4)
    exporter = HTMLExporter(template_name="template", extra_template_basedirs=[str(NOTEBOOK.parent)])
    html, _resources = exporter.from_notebook_node(notebook)
    REPORT.write_text(html, encoding="utf-8")
    status = {
        "exit_code": 0,
        "headlines": {benchmark: headlines(results, benchmark) for benchmark in results.study.benchmarks},
        "verdicts": verdict_counts(results),
        "runs": outcome_counts(results),
        "report": str(REPORT),
    }
    STATUS.write_text(json.dumps(status, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{REPORT} is written")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.report", description=__doc__))
