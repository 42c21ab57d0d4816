"""Describe a prepared data set: the schema of `dataset.json`."""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, PositiveInt

from pipeline.files.untrusted import Remedy, Sha256, Untrusted, read_json


class Digests(Untrusted):
    """Hold the SHA-256 of each array."""

    train_images: Sha256
    train_labels: Sha256
    test_images: Sha256
    test_labels: Sha256


class Description(Untrusted):
    """Tell training about a data set. `image_shape` is height, width and channels."""

    model_config = ConfigDict(extra="allow")

    name: str
    came_from: str = "TFDS"
    image_shape: tuple[PositiveInt, PositiveInt, PositiveInt]
    classes: Annotated[list[str], Field(min_length=1)]
    sha256: Digests


def read_description(name: str, root: Path) -> Description:
    """Return the description of the data set `name` under `root`.

    Raise an `InputError` that says how to prepare it again, if that fails.
    """
    remedy = f"Prepare it again with: dvc repro --force --single-item download@{name}"
    return read_json(Description, root / name / "dataset.json", Remedy(remedy, remedy))
