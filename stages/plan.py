"""Say of each pair of the finished study how many seeds would settle its accuracy, or that no number would."""

import argparse

from pipeline.claims.evidence import read_comparison
from pipeline.claims.wording import what_settles
from pipeline.study.schema import load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    comparison = read_comparison(load_study())
    for pair in comparison.pairs:
        print(what_settles(comparison, pair))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.plan", description=__doc__))
