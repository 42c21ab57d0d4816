"""Pack the finished study into one archive, from which a reviewer can recompute the report."""

import argparse
import shutil
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.writing import whole
from pipeline.publication.published import FILES, check_name, check_size, in_archive
from pipeline.publication.publishing import publish
from pipeline.publication.recomputing import recompute
from pipeline.report.results import load_results
from pipeline.report.status import status, write_status
from stages import run

ARCHIVE = Path("results/crate.zip")


def main(arguments: argparse.Namespace) -> None:
    results = load_results()
    if not Path("results/report.html").is_file():
        raise InputError("results/report.html is missing. Make it with: dvc repro")
    if arguments.to:
        check_name(arguments.to.absolute())
        check_size(Path("results/report.html"))
    write_status(status(results))
    with whole(ARCHIVE) as unchecked:
        recompute(publish(results, Path(), unchecked)).check(  # what a reviewer will check
            "nothing is published: the runs under runs/ are not those that the results are of. Compare, judge and "
            "report again, then publish: dvc repro"
        )
    if arguments.to:
        arguments.to.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(in_archive(name), arguments.to / name)
        print(f"{arguments.to} holds the published study")
    print(f"{ARCHIVE} ({ARCHIVE.stat().st_size / 1e6:.1f} MB); check it: python -m stages.report --from {ARCHIVE}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.publish", description=__doc__)
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="also put the study there, for the site to list")
    run(main, parser)
