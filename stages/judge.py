"""Judge every published claim by the statistics of this study."""

import argparse

from pipeline.claims.verdicts import VERDICTS, judge_results, verdicts_text
from stages import run


def main(_: argparse.Namespace) -> None:
    VERDICTS.write_text(verdicts_text(judge_results()), encoding="utf-8")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.judge", description=__doc__))
