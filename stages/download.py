"""Prepare a data set as arrays on disk, from this repository, TFDS or a mirror."""

import argparse
from pathlib import Path

from pipeline.data.datasets import DATA
from pipeline.errors import InputError
from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.processes import call
from pipeline.store.identity import of_data
from pipeline.store.kept import is_made, seal
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import load_study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    known = load_study().datasets  # a faulty study starts nothing, not even a download
    if arguments.dataset not in known:
        raise InputError(f"--dataset: must be one of {', '.join(known)}. Received: {arguments.dataset}")
    prepare(arguments.dataset, known[arguments.dataset])


def prepare(name: str, source: DatasetSource) -> None:
    """Prepare the data set `name` under data/, unless this source and this code have made it already."""
    of = of_data(name, source)
    if not is_made(DATA / name, of):
        seal(call(prepare_arrays, name, source), of)
    print(f"{DATA / name} is ready")


def prepare_arrays(name: str, source: DatasetSource) -> Path:
    choose_engine(backend="tensorflow")  # TFDS reads its files with TensorFlow, whatever engine trains
    from pipeline.data import preparation

    return preparation.prepare(name, source)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.download", description=__doc__)
    parser.add_argument("--dataset", required=True, help="a data set of params.yaml")
    run(main, parser)
