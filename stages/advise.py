"""Is mixed precision worth it for your model on this machine, and twice the batch? Make a small study that answers.

It has a folder of its own under advice/. Its params.yaml is composed once, and yours to edit from then on.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from pipeline.advice.proposal import (
    ADVICE,
    benchmark_name,
    choose_size,
    make_folder,
    model_values,
    propose,
    seen_from,
    study_name,
)
from pipeline.data.datasets import read_description
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.writing import write_whole
from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.environment import installed_engine
from pipeline.machine.processes import call
from pipeline.numbers import duration
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import PARAMS, Study, load_study
from stages import repro, run
from stages.argument_types import add_model_options, check_model_given


def main(arguments: argparse.Namespace) -> None:
    check_model_given(arguments)
    shown = prepare(arguments)
    if status := repro.make():
        print(f"This is about {shown}: in place of `make repro`, run the same `make advise`.", file=sys.stderr)
        sys.exit(status)


def prepare(arguments: argparse.Namespace) -> Path:
    """Make the folder of the study the working directory and return it; compose the study unless it is there."""
    root, engine, known = Path.cwd(), installed_engine(), load_study().datasets
    dataset = arguments.dataset if arguments.dataset in known else study_name(arguments.dataset)
    asked = {"tfds": arguments.dataset}
    origin = known.get(dataset) or validate(DatasetSource, asked, f"--dataset {arguments.dataset}")
    model = model_values(arguments.model, arguments.source, arguments.arguments, engine)
    name = benchmark_name(dataset, arguments.model)
    varied = [*map(str, arguments.arguments.items()), *([f"{arguments.image_size} px"] if arguments.image_size else [])]
    shown = ADVICE / study_name(" ".join([name, *varied, f"batch {arguments.batch}", engine]))
    folder = root / shown
    if not model["source"].startswith("pipeline/models/"):
        model["source"] = seen_from(folder, model["source"], root)
    if origin.source:
        origin = origin.model_copy(update={"source": seen_from(folder, origin.source, root)})
    make_folder(folder, root)
    os.environ["PYTHONPATH"] = str(root)  # where the stages, which start in the folder, are imported from
    os.chdir(folder)
    if PARAMS.exists():
        if model["source"] not in {benchmark.model.source for benchmark in load_study().benchmarks.values()}:
            raise InputError(f"{shown / PARAMS} is about another source than {model['source']}: remove {shown} first")
        print(f"{shown / PARAMS} is there, and is taken as it is")
        return shown
    data = next((data for data in (Path("data"), root / "data") if (data / dataset / "dataset.json").exists()), None)
    if data is None:
        print(f"preparing {dataset}", flush=True)
        data = call(prepare_data, dataset, origin)
    description = read_description(dataset, data).model_dump(mode="json")
    asked_for = model, dataset, origin, description, arguments.batch
    compose = partial(propose, *asked_for, image_size=arguments.image_size)
    draft = Study.model_validate(compose())
    print(f"looking at {arguments.model} under each policy", flush=True)
    seconds = call(look_at, draft, name, tuple(description["image_shape"]), len(description["classes"]))
    size = choose_size(seconds, arguments.batch, draft.benchmarks[name].split.num_train_examples)
    header = "# Composed once by make advise. What you change here, the same command takes.\n"
    write_whole(PARAMS, header + yaml_files.dump(compose(size=size)))
    batches = " and ".join(f"{multiple * arguments.batch:,}" for multiple in size.multiples)
    print(f"{shown / PARAMS}: {size.num_images:,} images at batch {batches}, about {duration(size.seconds)} here")
    return shown


def prepare_data(dataset: str, origin: DatasetSource) -> Path:
    """Prepare a data set in this folder and return data/. DVC does so again: it has no other way to know of it."""
    choose_engine(backend="tensorflow")  # which TFDS reads its files with, whatever trains
    from pipeline.data.preparation import prepare as prepare_arrays

    return prepare_arrays(dataset, origin).parent


def look_at(
    study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int
) -> dict[str, tuple[float, float]]:
    """Look at a model by its study's engine."""
    choose_engine([variant.policy for variant in study.variants.values()])
    from pipeline.advice.fitness import look

    return look(study, name, image_shape, num_classes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.advise", description=__doc__)
    add_model_options(parser)
    run(main, parser)
