"""Render the report on the finished study, or on one that was published, from its archive alone."""

import argparse
import shutil
import tempfile
from pathlib import Path

from pipeline.claims.claims_file import CLAIMS
from pipeline.files.writing import write_whole
from pipeline.report.rendering import PROJECT, execute, notebook_text, render
from stages import run

REPORT = Path("results/report.html")
RECOMPUTED = Path("recomputed.html")  # here, because only what is published lies in its folder
EXPLORABLE = Path("results/report.ipynb")  # the same to explore: every cell can be edited and run again


def main(arguments: argparse.Namespace) -> None:
    if arguments.archive and arguments.archive.is_dir():
        report_on(arguments.archive)
        return
    if arguments.archive:
        recompute_archive(arguments.archive)
        return
    notebook = execute(Path())
    EXPLORABLE.write_text(notebook_text(notebook), encoding="utf-8")
    REPORT.write_text(render(notebook), encoding="utf-8")
    print(f"{REPORT} is written, and {EXPLORABLE} to explore")


def report_on(folder: Path) -> None:
    """Compare, judge and report from the raw records in a folder of this project, which stays as it is."""
    from pipeline.publication.recomputing import remake

    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        shutil.copytree(folder, root)
        shutil.copyfile(PROJECT / CLAIMS, root / CLAIMS)
        remake(root)
        write_whole(RECOMPUTED, render(execute(root)))
    print(f"{RECOMPUTED} is written, from the records in {folder}")


def recompute_archive(archive: Path) -> None:
    """Recompute the study in `archive` from its records, and say what agrees and what was taken as published.

    Raises:
        InputError: the archive is damaged, or a recomputed file differs from the published one.
    """
    from pipeline.publication.recomputing import OTHER_RESULTS, recompute  # for the few who check, not for every study

    found = recompute(archive)
    write_whole(RECOMPUTED, found.html)  # in place of a link, not through it
    print(f"{RECOMPUTED} is written, recomputed from the {found.num_runs} runs in {archive}")
    print("recomputed, and as published: " + (", ".join(found.same) or "nothing"))
    not_ours = [f"{name} (NOT as this project has it)" for name in found.not_ours]
    print("taken as published: " + "; ".join(found.taken + not_ours))
    found.check(OTHER_RESULTS.format(archive))
    if found.by_deletion:
        print("made otherwise since it was published: " + ", ".join(found.by_deletion))
        print(*filter(None, found.by_deletion.values()), sep="\n")
    else:
        print("nothing differs: the same report, byte for byte")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.report", description=__doc__)
    parser.add_argument(
        "--from",
        dest="archive",
        type=Path,
        metavar="STUDY",
        help="an archive that `publish` made, or a folder of raw records",
    )
    run(main, parser)
