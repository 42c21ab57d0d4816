"""Render results to one HTML file: papermill runs the report's notebook, and a template takes one cell's output."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import papermill
from markupsafe import Markup
from nbformat import NotebookNode
from papermill import PapermillExecutionError
from traitlets.config import Config

from pipeline.errors import InputError
from pipeline.report.pages import TEMPLATES, page_environment

PROJECT = Path(__file__).parents[2]
NOTEBOOK = TEMPLATES / "report.ipynb"


def execute(root: Path) -> NotebookNode:
    """Run the notebook on the results under `root`. Return the notebook with its tables, charts and the report.

    Raises:
        InputError: a file under `root` is missing or damaged, or belongs to another study.
        PapermillExecutionError: a cell of the notebook failed for another reason.
    """
    logging.getLogger("papermill").setLevel(logging.ERROR)
    root = root.resolve()
    ours = root == PROJECT
    if not (root / "results").is_dir():
        raise InputError("there are no results to report on. Make them with: make repro")
    # The kernel must not import files that lie next to the results of somebody else's archive.
    folder, elsewhere = (root / "results", {}) if ours else (PROJECT, {"root": str(root), "code": str(PROJECT)})
    with tempfile.TemporaryDirectory() as partial:
        # Use sockets in a private folder, not open ports, because others may share the machine. Kill the kernel at the
        # end: on a graceful shutdown, a busy kernel would report the interrupt as an error.
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
    for part in (notebook, *notebook.cells):  # remove dates and durations, which differ every time
        part.metadata.pop("papermill", None)
        part.metadata.pop("execution", None)
    return notebook


@contextlib.contextmanager
def _nobodys_settings(folder: Path) -> Iterator[None]:
    """Hide the user's settings from kernels inside the block: start-up files, configuration and kernels.

    Args:
        folder: where Jupyter and IPython look for settings instead.
    """
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


def render(notebook: NotebookNode) -> str:
    """Return the report as HTML, from an executed notebook. The same results give the same text."""
    (report,) = (cell for cell in notebook.cells if cell.id == "report")
    parts = [output.data["text/html"] for output in report.outputs if output.output_type == "display_data"]
    page = page_environment().get_template("index.html.j2")
    return page.render(parts=map(Markup, parts))
