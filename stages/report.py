"""Render the report on the finished study, or on one that was published, from its archive alone."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pipeline.errors import InputError
from pipeline.rendering import PROJECT, render
from pipeline.results import load_results
from stages import run

REPORT = Path("results/report.html")


def main(arguments: argparse.Namespace) -> None:
    if arguments.archive:
        recompute(arguments.archive)
        return
    load_results()  # faults of the input show here, with their remedy, not as a notebook's traceback
    REPORT.write_text(render(Path()), encoding="utf-8")
    print(f"{REPORT} is written")


def recompute(archive: Path) -> None:
    """Compares, judges and renders anew from the records in `archive`, and says whether the report is the same.

    Raises:
        InputError: the archive is not as it was published, or another report comes out.
    """
    from pipeline.publishing import unpack  # for the few who check, not for every study

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(archive, folder)
        published = (folder / REPORT).read_text(encoding="utf-8")
        for stage in ("compare", "judge"):
            done = subprocess.run(
                [sys.executable, "-m", f"stages.{stage}"],
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(PROJECT)},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise InputError(f"{archive}: {stage} failed.\n{done.stderr.strip()}")
        html = render(folder)
    target = archive.with_suffix(".html")
    target.write_text(html, encoding="utf-8")
    if html != published:
        raise InputError(f"{target} is written, and it is not the report that was published in {archive}")
    print(f"{target} is written, recomputed from the records: the same report, byte for byte")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.report", description=__doc__)
    parser.add_argument("--from", dest="archive", type=Path, metavar="ARCHIVE", help="an archive that `publish` made")
    run(main, parser)
