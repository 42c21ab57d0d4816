"""Pack the raw records of the finished study into one archive, for others to check and repeat."""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.machine.left_out import study_as_made
from pipeline.publication.archive import ARCHIVE, check_name
from pipeline.publication.crate import publish
from pipeline.store.kept import read_identity
from pipeline.store.plan import made_otherwise
from pipeline.study.schema import Study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    folder = arguments.to
    check_name(folder.absolute())
    archive = folder / ARCHIVE
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty, and a published study never changes. Name a new folder")
    check_of_one_study(study_as_made())
    results = publish(Path(), archive)
    size, study, num_runs = archive.stat().st_size / 1e6, results.study, len(results.tables.runs)
    print(f"{archive} ({size:.1f} MB) holds {num_runs} of the {len(study.runs())} runs of the study {study.name}")
    print("Next, if the folder is in docs/reports: make pages")


def check_of_one_study(study: Study) -> None:
    """Raise `InputError` if results belong to another study, or if several versions of the code made the runs."""
    runs, speeds = made_otherwise(study, aside=["code"])
    codes = {str(said["of"]["code"]) for key in study.runs() if (said := read_identity(key.directory))}
    if runs or speeds or len(codes) > 1:
        raise InputError("some runs were made by another study or by other code. Make them again: make repro")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.publish", description=__doc__)
    parser.add_argument("--to", type=Path, metavar="FOLDER", required=True, help="such as docs/reports/my-machine")
    run(main, parser)
