"""Types of arguments that several commands take."""

import argparse
import json
from typing import Any


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
