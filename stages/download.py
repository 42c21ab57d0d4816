"""Prepare a data set: TFDS to arrays on disk."""

import argparse

from pipeline import datasets
from pipeline.study import load_study
from stages import choose_engine, run


def main(arguments: argparse.Namespace) -> None:
    load_study()  # a faulty study starts nothing, not even a download
    choose_engine("tensorflow")  # which TFDS reads its files with, whatever trains
    import pipeline.engine  # noqa: F401  without its chatter

    print(f"{datasets.download(arguments.dataset)} is ready")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.download", description=__doc__)
    parser.add_argument("--dataset", required=True, help="a data set's name in TFDS, such as mnist")
    run(main, parser)
