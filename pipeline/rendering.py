"""Results to one HTML file: papermill runs the notebook, nbconvert puts its output into our own template."""

import base64
import hashlib
import logging
import tempfile
from pathlib import Path

import nbformat
import papermill
from nbconvert import HTMLExporter
from traitlets.config import Config

import pipeline.reporting  # noqa: F401  what the notebook imports: named here, an edit of it renders anew

PROJECT = Path(__file__).parent.parent
NOTEBOOK = PROJECT / "report" / "report.ipynb"


def render(root: Path) -> str:
    """The report on the results under `root`, the same text for the same results."""
    logging.getLogger("papermill").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        executed = Path(folder, "report.ipynb")
        papermill.execute_notebook(
            NOTEBOOK,
            executed,
            {"root": str(root.absolute())},
            progress_bar=False,
            cwd=PROJECT,
            config=Config({"KernelManager": {"transport": "ipc"}}),  # no open port, on a machine shared with others
        )
        notebook = nbformat.read(executed, as_version=4)
    exporter = HTMLExporter(template_name="template", extra_template_basedirs=[str(NOTEBOOK.parent)])
    exporter.register_filter("sha256", _sha256)
    html, _resources = exporter.from_notebook_node(notebook)
    return str(html)


def _sha256(text: str) -> str:
    """The digest by which a Content-Security-Policy admits an inline script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
