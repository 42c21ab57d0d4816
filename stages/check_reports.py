"""Verify every published study: its files and crate, each number from its records, its claims by the rules of today.

A study that only earlier code of this project can have made is listed as unverified, with the commit that verifies it.
"""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.checking import Unverified, check_report
from stages import run

COMMAND = "python -m stages.check_reports"


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
        if isinstance(checked, Unverified):
            print(f"{folder.name}: UNVERIFIED. Today's code does not give it: {checked.reason}")
            print(f"  verify it by the code of its day: git checkout {checked.commit}, then {COMMAND} --reports FOLDER")
            continue
        print(f"{folder.name}: the crate is valid; {checked.num_runs} runs give every number")
        for name in checked.not_ours:
            print(f"  {name} (NOT as this project has it)")
        if checked.own_claims:
            print(f"  claims of its own: {excerpt(', '.join(checked.own_claims), 500)}")
        for name, then, today in checked.changes:
            print(f"  {name}: {then or 'no verdict'} then, {today or 'no verdict'} by today's rules")
        if not checked.changes:
            print(f"  {len(checked.today)} claims: today's rules give the verdicts of its day")
    if refused:
        raise InputError("\n".join(refused))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--reports", type=Path, default=Path("docs/reports"), help="a folder of published studies")
    run(main, parser)
