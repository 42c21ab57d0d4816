"""Make campaigns of the ledger the baseline of their series."""

import argparse
from pathlib import Path

from pipeline.campaign.ledger import BASELINE, pin
from pipeline.campaign.preparing import CAMPAIGNS, LEDGER
from stages import run

DEFAULT = CAMPAIGNS / LEDGER


def main(arguments: argparse.Namespace) -> None:
    series = pin(arguments.campaign, arguments.ledger)
    print(f"baseline of series {series}: {', '.join(arguments.campaign)}, in {arguments.ledger / BASELINE}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.pin", description=__doc__)
    parser.add_argument(
        "--campaign", required=True, nargs="+", help="campaigns of the ledger; three show how they vary"
    )
    parser.add_argument("--ledger", type=Path, default=DEFAULT, help=f"folder of the ledger (default {DEFAULT})")
    run(main, parser)
