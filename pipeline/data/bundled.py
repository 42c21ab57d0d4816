"""Read the images that come with this repository.

A part of a data set is one lossless WebP picture, a mosaic of its images class by class, and a column of a CSV file
that counts the images of each class.
"""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.data.known import BUNDLED, KNOWN, Part, checked
from pipeline.errors import InputError


def read_bundled(name: str, folder: Path = BUNDLED) -> dict[str, Part]:
    """Return both parts of the bundled data set `name`, in the order of their digests.

    Raises:
        InputError: a file is missing, or its content is not the one that is known.
    """
    try:
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            counts = list(csv.DictReader(file))
        return checked(name, {part: _read(name, part, counts, folder) for part in ("train", "test")})
    except (OSError, ValueError, LookupError, InputError) as error:
        raise InputError(
            f"{folder.name}/ does not hold {name} as it came with this repository ({error}).\n"
            f"Get it back with: git checkout -- {folder.name}"
        ) from None


def _read(name: str, part: str, counts: list[dict[str, str]], folder: Path) -> Part:
    height, width, num_channels = KNOWN[name].image_shape
    with Image.open(folder / f"{name}.{part}.webp") as picture:
        mosaic = np.asarray(picture)[:, :, :num_channels]  # WebP has no grey: its three channels are the same
    rows, columns = mosaic.shape[0] // height, mosaic.shape[1] // width
    tiles = mosaic.reshape(rows, height, columns, width, num_channels).swapaxes(1, 2)
    labels = np.repeat(np.arange(len(counts)), [int(each[part]) for each in counts])
    return tiles.reshape(-1, height, width, num_channels)[: len(labels)], labels
