"""Judge every published claim by the statistics of this study."""

import argparse
from collections import Counter
from pathlib import Path

from pipeline.claims.verdicts import judge_results, verdicts_text
from stages import run

VERDICTS = Path("results/verdicts.json")


def main(_: argparse.Namespace) -> None:
    judgements = judge_results()
    VERDICTS.write_text(verdicts_text(judgements), encoding="utf-8")
    counts = Counter(judgement.verdict for judgement in judgements)
    print(" · ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.judge", description=__doc__))
