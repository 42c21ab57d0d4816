"""Pack the finished study into one archive, from which a reviewer can recompute the report."""

import argparse
import shutil
from pathlib import Path

from pipeline.errors import InputError
from pipeline.publishing import publish
from pipeline.results import load_results
from pipeline.site import FILES
from pipeline.status import status, write_status
from stages import run

ARCHIVE = Path("results/crate.zip")


def main(arguments: argparse.Namespace) -> None:
    results = load_results()
    if not Path("results/report.html").is_file():
        raise InputError("results/report.html is missing. Make it with: dvc repro")
    write_status(status(results))
    archive = publish(results, Path(), ARCHIVE)
    if arguments.to:
        arguments.to.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            source = Path(name) if name == "params.yaml" else Path("results", name)
            shutil.copyfile(source, arguments.to / name)
        print(f"{arguments.to} holds the published study")
    print(f"{archive} ({archive.stat().st_size / 1e6:.1f} MB); check it: python -m stages.report --from {archive}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.publish", description=__doc__)
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="also put the study there, for the site to list")
    run(main, parser)
