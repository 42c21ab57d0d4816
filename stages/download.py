"""Prepare a data set: TFDS to arrays on disk."""

import argparse

import pipeline.engine  # noqa: F401  loads TensorFlow, which TFDS needs, without its chatter
from pipeline import datasets
from pipeline.study import load_study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    load_study()  # a faulty study starts nothing, not even a download
    print(f"{datasets.download(arguments.dataset)} is ready")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.download", description=__doc__)
    parser.add_argument("--dataset", required=True, help="a data set's name in TFDS, such as mnist")
    run(main, parser)
