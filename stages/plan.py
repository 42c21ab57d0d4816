"""Say of each pair of the finished study how many seeds would settle its accuracy, or that no number would."""

import argparse

from pipeline.claims.evidence import read_comparison
from pipeline.claims.measured_claims import judge_equivalence
from pipeline.study.schema import load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    comparison = read_comparison(load_study())
    for pair in comparison.pairs:
        reason = judge_equivalence(comparison, pair)[1]
        print(f"{pair.benchmark}: {pair.candidate} beside {pair.baseline}: {pair.equivalence.outcome}; {reason}.")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.plan", description=__doc__))
