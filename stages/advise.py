"""Run a small study: is mixed precision, or twice the batch, worth it for your model on this machine?

The command composes params.yaml from the profile `yours`. You can edit params.yaml afterwards.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from pipeline.advice import proposal
from pipeline.advice.proposal import YOURS, with_best_mixture, with_repair
from pipeline.comparison.tables import Tables, read_tables
from pipeline.data.datasets import read_description
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.places import PARAMS
from pipeline.machine.environment import installed_engine
from pipeline.machine.left_out import study_as_made
from pipeline.machine.processes import call
from pipeline.study.benchmark import OWN_MODELS
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import Study, load_study
from pipeline.words.numbers import duration
from stages import repro, run
from stages.compose import SMALL, composed, nobody_at_work, replace_params
from stages.download import prepare_arrays
from stages.train import ask_of_model


def main(arguments: argparse.Namespace) -> None:
    compose_study(arguments)
    status = repro.make()
    for ask, words in FURTHER.items():
        if not status and (further := ask(load_study(), made := study_as_made(), read_tables(made))):
            print(words, flush=True)
            replace_params(text_of_study(further))
            status = repro.make()
    if status:
        sys.exit(status)


def why_slow(planned: Study, made: Study, tables: Tables) -> Study | None:
    """Return the planned study with a benchmark that finds the layers which make a 16-bit policy slow.

    Return None if `proposal.slow_policy` names no policy, or if no layer of the model has a kernel.
    """
    policy = proposal.slow_policy(made, tables)
    if policy is None:
        return None
    kinds = ask_of_model("costly_kinds", made, YOURS)
    return proposal.with_mixtures(planned, policy, kinds) if kinds else None


FURTHER = {
    why_slow: "no 16-bit policy is clearly faster: asking which layers make it slow",
    with_best_mixture: "a mixture of 16 bits and float32 is faster: timing it in launches of its own, and training it",
    with_repair: "a 16-bit run diverged: training it once more with its first layer that was not finite in float32",
}


def compose_study(arguments: argparse.Namespace) -> None:
    """Write the study that the command asks for to params.yaml, unless the same command wrote params.yaml before."""
    there = load_study() if PARAMS.exists() else None
    command = command_of(arguments)
    if there and there.name == YOURS and there.description.endswith(command):
        print(f"{PARAMS} is what this command composed, and is taken as it is")
        return
    with nobody_at_work():
        pass  # another command that is at work would be disturbed while this command prepares data
    if taken := sorted(arguments.recipe.keys() & {"batch_size", "dataset", "image_size", "model", "split"}):
        raise InputError(
            f"--recipe: {', '.join(taken)} can't be part of it. DATASET, MODEL, BATCH and IMAGE_SIZE are options of "
            "their own, and the command chooses how many images to train on."
        )
    known = known_datasets(there)
    dataset = arguments.dataset
    if dataset not in known:
        dataset = re.sub(r"[^a-z0-9]+", "_", dataset.lower()).strip("_")  # a valid name in a study
    source = {"tfds": arguments.dataset}
    origin = known.get(dataset) or validate(DatasetSource, source, f"--dataset {arguments.dataset}")
    model = proposal.model_values(arguments.model, arguments.source, arguments.arguments, installed_engine())
    asked = arguments.recipe | {"dataset": dataset, "model": model, "batch_size": arguments.batch}
    if arguments.image_size:
        asked["image_size"] = arguments.image_size
    print(f"preparing {dataset}", flush=True)
    call(prepare_arrays, dataset, origin)
    description = read_description(dataset).model_dump(mode="json")
    profile = composed(["profile=yours"])
    profile["description"] += f" Asked by: {command}"
    compose = partial(proposal.propose, profile, asked, origin.model_dump(exclude_unset=True), description)
    draft = compose()
    print(f"looking at {arguments.model} under each policy", flush=True)
    seconds = ask_of_model("look", draft, YOURS)
    size = proposal.choose_size(draft, seconds, arguments.batch, draft.benchmarks[YOURS].split.num_train_examples)
    replace_params(text_of_study(compose(size=size)))
    batches = " and ".join(f"{multiple * arguments.batch:,}" for multiple in size.multiples)
    print(f"training on {size.num_images:,} images at batch {batches}, about {duration(size.seconds)} here")


def text_of_study(study: Study) -> str:
    """Return the text of params.yaml for `study`, with a comment on the origin of the study at the top."""
    text = yaml_files.dump(study.model_dump(mode="json", exclude_unset=True))
    return f"# Composed by make advise. What you change here, the same command takes.\n{text}"


def command_of(arguments: argparse.Namespace) -> str:
    """Return the `make advise` command with its options, on one line. The study's description ends with this line."""
    given = {name.upper(): value for name, value in sorted(vars(arguments).items()) if value not in (None, {})}
    return " ".join(["make advise", *(f"{name}={json.dumps(value)}" for name, value in given.items())])


def known_datasets(study: Study | None) -> Mapping[str, DatasetSource]:
    """Return the data sources of `study` by name, or an empty mapping without a study.

    If the study was composed with SMALL=1, which cuts data sets to a few images, return the sources of the whole sets.
    """
    if study is None or study.campaign != SMALL:
        return study.datasets if study else {}
    return {
        name: source.model_copy(update={"train": "train", "test": "test"}) for name, source in study.datasets.items()
    }


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number above 0. Received: {text}")
    return int(text)


def mapping(text: str) -> dict[str, Any]:
    values = yaml_files.parse(text, text)  # JSON is YAML
    if not isinstance(values, dict):
        raise argparse.ArgumentTypeError(f"must be keys with values, such as {{alpha: 0.5}}. Received: {text}")
    return values


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.advise", description=__doc__)
    parser.add_argument(
        "--model",
        required=True,
        help=f"{', '.join(OWN_MODELS)}, keras.applications:ResNet50V2, or my_package.models:build",
    )
    parser.add_argument("--dataset", required=True, help="a data set of params.yaml, or of TFDS with image and label")
    parser.add_argument("--batch", type=positive, default=128, help="the batch size B you train with (128)")
    parser.add_argument("--source", help="the file or folder of a model of your own; by default in this project")
    parser.add_argument("--arguments", type=mapping, default={}, help="of the model, as in '{\"alpha\": 0.5}'")
    parser.add_argument(
        "--recipe",
        type=mapping,
        default={},
        help="of your training, as in '{optimizer: {name: sgd, learning_rate: 0.1}, num_epochs: 10}'",
    )
    parser.add_argument("--image-size", type=positive, help="by default that of the data set")
    run(main, parser)
