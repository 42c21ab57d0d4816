"""Verify every published study: its files and crate, each number from its records, its claims by the rules of today."""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.checking import check_report
from stages import run


def main(arguments: argparse.Namespace) -> None:
    folders = sorted(path for path in arguments.reports.glob("*") if path.is_dir())
    if not folders:
        raise InputError(f"{arguments.reports} holds no published study")
    refused = []
    for folder in folders:
        try:
            checked = check_report(folder)
        except InputError as error:
            refused.append(f"{folder.name!a} is refused: {error}")
            continue
        except Exception as error:  # a stranger's study never keeps the others from being checked
            refused.append(
                f"{folder.name!a} is refused: it can't be checked ({type(error).__name__}: {excerpt(error)})"
            )
            continue
        print(f"{folder.name}: the crate is valid; {checked.num_runs} runs give every number, by {checked.rules}")
        for name in checked.not_ours:
            print(f"  {name} (NOT that of this project)")
        if checked.own_claims:
            print(f"  claims of its own: {excerpt(', '.join(checked.own_claims), 500)}")
        for name, then, today in checked.changes:
            print(f"  {name}: {then or 'no verdict'} then, {today or 'no verdict'} by today's rules")
        if checked.today is None:
            print("  its results are of a schema that today's rules can't judge: the verdicts are those of its day")
        elif not checked.changes:
            print(f"  {len(checked.today)} claims: today's rules give the verdicts of its day")
    if refused:
        raise InputError("\n".join(refused))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.check_reports", description=__doc__)
    parser.add_argument("--reports", type=Path, default=Path("docs/reports"), help="a folder of published studies")
    run(main, parser)
