"""Define options that several commands take, and their types."""

import argparse
from typing import Any

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.words.numbers import listed


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number above 0. Received: {text}")
    return int(text)


def mapping(text: str) -> dict[str, Any]:
    try:
        values = yaml_files.parse(text, "it")  # JSON is YAML
    except InputError:
        values = None
    if not isinstance(values, dict):
        raise argparse.ArgumentTypeError(f"must be keys with values, such as {{alpha: 0.5}}. Received: {text}")
    return values


def check_given(example: str, **given: object) -> None:
    """Raise an `InputError` that names the make variables missing from `given`, and shows an `example`."""
    if missing := [name for name, value in given.items() if value in (None, "")]:
        raise InputError(f"give {listed(f'{name}=…' for name in missing)}, as in: make {example}")
