"""Pack the finished study into one archive, from which a reviewer can recompute the report."""

import argparse
import shutil
import tempfile
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.terminal import this_python
from pipeline.files.writing import whole
from pipeline.publication.archive import FILES, check_name, check_size, read_archive
from pipeline.publication.crate import publish
from pipeline.publication.recomputing import bring_up_to_date, recompute
from pipeline.report.results import load_results
from pipeline.report.status import status, write_status
from stages import run

ARCHIVE = Path("results/crate.zip")


def main(arguments: argparse.Namespace) -> None:
    if arguments.again:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name, "study")
            bring_up_to_date(arguments.again / "crate.zip", root)  # from its records: its size alone is left to check
            check_size(root / "results/report.html")
            publish(load_results(root), root, root / ARCHIVE)
            _put(root, arguments.again)
        return
    results = load_results()
    if not Path("results/report.html").is_file():
        raise InputError("results/report.html is missing. Make it with: make repro")
    if arguments.to:
        check_name(arguments.to.absolute())
        check_size(Path("results/report.html"))
    write_status(status(results))
    with whole(ARCHIVE) as unchecked:
        recompute(publish(results, Path(), unchecked)).check(  # what a reviewer will check
            "nothing is published: the runs under runs/ are not those that the results are of. Compare, judge and "
            "report again, then publish: make repro"
        )
    if arguments.to:
        _check_same(arguments.to / "crate.zip")
        _put(Path(), arguments.to)
    check = f"{this_python()} -m stages.report --from {ARCHIVE}"
    print(f"{ARCHIVE} ({ARCHIVE.stat().st_size / 1e6:.1f} MB); check it: {check}")


def _check_same(published: Path) -> None:
    """Refuse to overwrite an archive that has no run of this study: it may be of the same recipe on another day."""
    if published.exists():
        theirs, ours = read_archive(published), read_archive(ARCHIVE)
        records = [name for name in ours if name.startswith("runs/") and name.endswith("/record.json")]
        if not any(theirs.get(name) == ours[name] for name in records):
            raise InputError(
                f"{published.parent} holds another study, which has no run of this one. Publish this one under another "
                f"name, or remove {published.parent} first"
            )


def _put(root: Path, folder: Path) -> None:
    for name, path in FILES.items():
        with whole(folder / name) as partial:
            shutil.copyfile(root / path, partial)
    print(f"{folder} holds the published study")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.publish", description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--to", type=Path, metavar="FOLDER", help="also put the study there, for others to check")
    chosen.add_argument(
        "--again",
        type=Path,
        metavar="FOLDER",
        help="publish the study there again, by today's code and claims",
    )
    run(main, parser)
