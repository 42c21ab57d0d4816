"""Results to one HTML file: papermill runs the notebook, nbconvert puts one cell's output into our own template."""

import base64
import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import papermill
from nbconvert import TemplateExporter
from nbformat import NotebookNode
from papermill import PapermillExecutionError
from traitlets.config import Config

from pipeline.errors import InputError

if TYPE_CHECKING:
    # What the notebook imports, in a process of its own: named here, an edit of it renders again.
    import pipeline.report.reporting  # noqa: F401

PROJECT = Path(__file__).parents[2]
TEMPLATES = Path(__file__).parent / "templates"
NOTEBOOK = TEMPLATES / "report.ipynb"


def execute(root: Path) -> NotebookNode:
    """Return the notebook, executed on the results under `root`: tables and charts to explore, and the report.

    It belongs into `results/`, where it can be opened and run again.

    Raises:
        InputError: a file under `root` is missing or damaged, as the notebook found.
    """
    logging.getLogger("papermill").setLevel(logging.ERROR)
    root = root.resolve()
    ours = root == PROJECT
    if not (root / "results").is_dir():
        raise InputError("there are no results to report on. Make them with: make repro")
    # Nothing that lies beside the results of somebody else's archive must be on the kernel's path.
    folder, elsewhere = (root / "results", {}) if ours else (PROJECT, {"root": str(root), "code": str(PROJECT)})
    with tempfile.TemporaryDirectory() as partial:
        # No open port, because others may share the machine; and sockets in a folder that no other kernel has. At its
        # end a kernel is interrupted and then killed: given time, a busy one reports the interrupt as an error.
        manager = {"transport": "ipc", "ip": f"{partial}/kernel"}
        kernel = Config({"KernelManager": manager, "NotebookClient": {"shutdown_kernel": "immediate"}})
        try:
            with _nobodys_settings(Path(partial)):
                notebook = papermill.execute_notebook(
                    NOTEBOOK,
                    Path(partial, "report.ipynb"),
                    elsewhere,
                    progress_bar=False,
                    cwd=folder,
                    config=kernel,
                )
        except PapermillExecutionError as error:
            if error.ename != InputError.__name__:
                raise
            raise InputError(error.evalue.replace(f"{elsewhere.get('root', '..')}/", "")) from None
    for part in (notebook, *notebook.cells):  # when it was executed and for how long: other bytes every time
        part.metadata.pop("papermill", None)
        part.metadata.pop("execution", None)
    return notebook


@contextlib.contextmanager
def _nobodys_settings(folder: Path) -> Iterator[None]:
    """Start kernels without whatever a user's own settings add: start-up files, and other kernels of the same name."""
    before = dict(os.environ)
    for name in ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "PYTHONSTARTUP"):
        os.environ.pop(name, None)
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        os.environ[name] = str(folder / name.lower())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def notebook_text(notebook: NotebookNode) -> str:
    """Return the text of an .ipynb file."""
    return str(nbformat.writes(notebook))


def render(notebook: NotebookNode) -> str:
    """Return the report as HTML, from an executed notebook: the same text for the same results."""
    report = [cell for cell in notebook.cells if "report" in cell.metadata.get("tags", [])]
    # Not the exporter for HTML: it parses the page once more, to mend what its own templates leave out.
    exporter = TemplateExporter(
        template_name="page", file_extension=".html", extra_template_basedirs=[str(NOTEBOOK.parent)]
    )
    exporter.register_filter("sha256", _sha256)
    html, _resources = exporter.from_notebook_node(NotebookNode(notebook | {"cells": report}))
    return str(html)


def _sha256(text: str) -> str:
    """Return the digest by which a Content-Security-Policy admits an inline script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
