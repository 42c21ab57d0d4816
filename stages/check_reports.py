"""Verify every published study: its files, its claims, and each number and verdict from its records."""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.recomputing import check_report
from stages import run


def main(arguments: argparse.Namespace) -> None:
    folders = sorted(path for path in arguments.reports.glob("*") if path.is_dir())
    if not folders:
        raise InputError(f"{arguments.reports} holds no published study")
    refused = []
    for folder in folders:
        try:
            found, own_claims = check_report(folder)
        except Exception as error:  # a stranger's study never keeps the others from being checked
            fault = f"it can't be checked ({type(error).__name__}: {excerpt(error)})"
            refused.append(f"{folder.name!a} is refused: {error if isinstance(error, InputError) else fault}")
            continue
        print(f"{folder.name}: {found.num_runs} runs give every number, and the crate describes them")
        for name, what in found.by_deletion.items():
            print(f"  {name} differs by what is gone{': ' * bool(what)}{what}")
        for name in found.not_ours:
            print(f"  {name} (NOT as this project has it)")
        if own_claims:
            print(f"  claims of its own: {excerpt(', '.join(own_claims), 500)}")
    if refused:
        raise InputError("\n".join(refused))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.check_reports", description=__doc__)
    parser.add_argument("--reports", type=Path, default=Path("docs/reports"), help="a folder of published studies")
    run(main, parser)
