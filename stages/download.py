"""Prepare a data set as arrays on disk, from this repository, TensorFlow Datasets (TFDS) or a mirror."""

import argparse
from pathlib import Path

from pipeline.data.datasets import DATA
from pipeline.errors import InputError
from pipeline.files.locks import at_work
from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.processes import call
from pipeline.store.identity import check_current, of_data
from pipeline.store.kept import is_made, seal
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import load_study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    name = arguments.dataset
    of = of_data(name, source := source_of(name))
    if not is_made(DATA / name, of):
        with at_work():
            folder = call(prepare_arrays, name, source)
        check_current({name: of}, {name: of_data(name, source_of(name))})
        seal(folder, of)
    print(f"{DATA / name} is ready")


def source_of(name: str) -> DatasetSource:
    known = load_study().datasets  # reads the whole study, because a faulty one starts no download
    if name not in known:
        raise InputError(f"--dataset: must be one of {', '.join(known)}. Received: {name}")
    return known[name]


def prepare_arrays(name: str, source: DatasetSource) -> Path:
    """Prepare the data set `name` in this process, and return the data set's folder."""
    choose_engine(backend="tensorflow")  # TFDS reads its files with TensorFlow, whatever engine trains
    from pipeline.data import preparation

    return preparation.prepare(name, source)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.download", description=__doc__)
    parser.add_argument("--dataset", required=True, help="a data set of params.yaml")
    run(main, parser)
