"""Make campaigns of the ledger the baseline of their series."""

import argparse

from pipeline.campaign.ledger import BASELINE, pin
from pipeline.campaign.preparing import CAMPAIGNS, LEDGER
from stages import run


def main(arguments: argparse.Namespace) -> None:
    ledger = CAMPAIGNS / LEDGER
    series = pin(arguments.campaign, ledger)
    print(f"baseline of series {series}: {', '.join(arguments.campaign)}, in {ledger / BASELINE}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.pin", description=__doc__)
    parser.add_argument(
        "--campaign", required=True, nargs="+", help="campaigns of the ledger; three show how much campaigns vary"
    )
    run(main, parser)
