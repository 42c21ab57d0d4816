"""Make campaigns of the ledger the baseline of their series; the commit of history/baseline.json is the decision."""

import argparse

from pipeline.campaign.ledger import BASELINE, LEDGER, pin
from stages import run


def main(arguments: argparse.Namespace) -> None:
    series = pin(arguments.campaign)
    print(f"baseline of series {series}: {', '.join(arguments.campaign)}; commit {LEDGER / BASELINE}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.pin", description=__doc__)
    parser.add_argument(
        "--campaign", required=True, nargs="+", help="campaigns of the ledger; three show how they vary"
    )
    run(main, parser)
