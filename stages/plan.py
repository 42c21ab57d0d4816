"""Say of each pair of the finished study how many seeds would settle its accuracy, or that no number would."""

import argparse

from pipeline.claims.evidence import read_comparison
from pipeline.claims.measured_claims import judge_equivalence
from pipeline.report.words import describe_variant, in_brackets
from pipeline.study.schema import load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    study = load_study()
    comparison = read_comparison(study)
    still_open: list[str] = []
    settled: list[str] = []
    for pair in comparison.pairs:
        verdict, reason = judge_equivalence(comparison, pair)
        names = (pair.candidate, pair.baseline)
        candidate, baseline = (in_brackets(describe_variant(study.variants[name])) for name in names)
        lines = still_open if verdict == "inconclusive" else settled
        lines.append(f"  {pair.benchmark}: {candidate} beside {baseline}: {reason}")
    if still_open:
        print(f"open: {len(still_open)} of {len(comparison.pairs)}", *still_open, sep="\n")
        print(
            "To add seeds: name more of them in `seeds` of params.yaml (and in `num_seeds…`, if there), then make repro"
        )
    print(f"settled: {len(settled)} of {len(comparison.pairs)}", *settled, sep="\n")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.plan", description=__doc__))
