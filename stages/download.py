"""Prepare a data set: TFDS to arrays on disk."""

import argparse

from pipeline.errors import InputError
from pipeline.study import load_study
from stages import choose_engine, run


def main(arguments: argparse.Namespace) -> None:
    study = load_study()  # a faulty study starts nothing, not even a download
    if arguments.dataset not in study.datasets:
        raise InputError(f"--dataset: must be one of {', '.join(study.datasets)}. Received: {arguments.dataset}")
    choose_engine("tensorflow")  # which TFDS reads its files with, whatever trains
    import pipeline.engine  # noqa: F401  without its chatter
    from pipeline.preparation import prepare

    print(f"{prepare(arguments.dataset, study.datasets[arguments.dataset])} is ready")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.download", description=__doc__)
    parser.add_argument("--dataset", required=True, help="a data set of params.yaml")
    run(main, parser)
