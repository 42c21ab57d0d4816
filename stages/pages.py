"""Write the page of each published study and the index of all studies, or check these pages against the records."""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.files.writing import write_whole
from pipeline.publication.archive import ARCHIVE, PAGE, check_folder, recompute
from pipeline.publication.github_pages import index_page, study_page
from pipeline.report.results import Results
from stages import run


def main(arguments: argparse.Namespace) -> None:
    folders = sorted(path for path in arguments.reports.glob("*") if path.is_dir())
    if not folders:
        raise InputError(f"{arguments.reports} holds no folder of a published study")
    put = check if arguments.check else write
    studies: dict[str, Results] = {}
    refused = []
    for folder in folders:
        try:
            check_folder(folder)
            with tempfile.TemporaryDirectory() as root:
                results = recompute(folder / ARCHIVE, Path(root))
            is_shown = put(folder, study_page(results, folder / ARCHIVE))
        except InputError as error:
            refused.append(str(error))
            continue
        shown = " with its page" if is_shown else ", and no page shows them yet"
        print(f"{folder.name}: its {len(results.tables.runs)} runs agree{shown}")
        if is_shown:
            studies[folder.name] = results
    if not refused:
        try:
            put(arguments.reports, {PAGE: index_page(studies)})
        except InputError as error:
            refused.append(str(error))
    if refused:
        raise InputError("\n".join(refused))


def write(folder: Path, texts: Mapping[str, str]) -> bool:
    """Write each text to the file of its name in `folder`. Return True, because the page exists now."""
    for name, text in texts.items():
        write_whole(folder / name, text)
    return True


def check(folder: Path, texts: Mapping[str, str]) -> bool:
    """Compare the files in `folder` with `texts`, which give each file's content by name. Return whether a page exists.

    A contributed study has no page until `write` makes it.

    Raises:
        InputError: a file differs; the message names the first line that differs.
    """
    there = {name: text for name, text in texts.items() if (folder / name).exists()}
    for name, text in there.items():
        theirs, ours = (folder / name).read_text(encoding="utf-8", errors="replace").split("\n"), text.split("\n")
        if theirs != ours:
            number = next((at for at, (one, other) in enumerate(zip(theirs, ours, strict=False)) if one != other), -1)
            line = f"line {number + 1} is {excerpt(theirs[number])!r}, and its records give {excerpt(ours[number])!r}"
            raise InputError(
                f"{excerpt(folder / name)} disagrees with the records: {line}. One of the two was changed.",
                "If that is right: make pages",
            )
    return PAGE in there


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.pages", description=__doc__)
    parser.add_argument("--reports", type=Path, default=Path("docs/reports"), help="a folder of published studies")
    parser.add_argument("--check", action="store_true", help="write nothing, and say what differs")
    run(main, parser)
