"""Check params.yaml and claims.yaml whole, before anything runs."""

import argparse

from pipeline.claims import load_claims
from pipeline.study import load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    load_study()
    load_claims()


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.check", description=__doc__))
