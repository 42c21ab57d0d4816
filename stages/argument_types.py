"""Define options that several commands take, and their types."""

import argparse
import json
from typing import Any

from pipeline.errors import InputError
from pipeline.numbers import listed


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number above 0. Received: {text}")
    return int(text)


def mapping(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise argparse.ArgumentTypeError(f'must be a JSON object such as {{"alpha": 0.5}}. Received: {text}')
    return values


def check_given(example: str, **given: object) -> None:
    """Raise `InputError` that names the make variables missing from `given`, and shows an `example`."""
    if missing := [name for name, value in given.items() if value in (None, "")]:
        raise InputError(f"give {listed(f'{name}=…' for name in missing)}, as in: make {example}")


def check_model_given(arguments: argparse.Namespace) -> None:
    example = "advise MODEL=keras.applications:MobileNetV2 DATASET=mnist BATCH=64"
    check_given(example, MODEL=arguments.model, DATASET=arguments.dataset)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `make advise`: a model, a data set and a batch."""
    parser.add_argument(
        "--model",
        help="dense, efficientnet, resnet9, keras.applications:ResNet50V2, or my_package.models:build",
    )
    parser.add_argument("--dataset", help="a data set of params.yaml, or any of TFDS with image and label")
    parser.add_argument("--batch", type=positive, default=128, help="the batch size B you train with (128)")
    parser.add_argument("--source", help="the file or folder of a model of your own; by default in this project")
    parser.add_argument("--arguments", type=mapping, default={}, help="of the model, as in '{\"alpha\": 0.5}'")
    parser.add_argument("--image-size", type=positive, help="by default that of the data set")
