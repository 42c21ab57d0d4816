"""Pack the raw records of the finished study into one archive, for others to check and to repeat."""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.publication.archive import ARCHIVE, check_folder
from pipeline.publication.crate import publish
from stages import run


def main(arguments: argparse.Namespace) -> None:
    folder = arguments.to
    check_folder(folder.absolute())
    archive = folder / ARCHIVE
    if archive.exists():
        raise InputError(f"{archive} is published, and stays as it is. Publish this study in a folder of another name")
    results = publish(Path(), archive)
    size = archive.stat().st_size / 1e6
    print(f"{archive} ({size:.1f} MB) holds the {len(results.tables.runs)} runs of the study")
    print("its page, if it lies under docs/reports: make pages")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.publish", description=__doc__)
    parser.add_argument("--to", type=Path, metavar="FOLDER", required=True, help="such as docs/reports/my-machine")
    run(main, parser)
