"""Read the images that come with this repository, and make their files again from whole data sets.

A part of a data set is one lossless WebP picture, a mosaic of its images class by class, and a column of a CSV file
that counts the images of each class.
"""

import csv
import math
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.data.known import BUNDLED, KNOWN, Part, checked, class_names
from pipeline.errors import InputError

CIFAR100_QUICK = {"train": 30, "test": 20}  # images of each class


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


def write_bundled(name: str, parts: dict[str, Part], folder: Path = BUNDLED) -> None:
    """Write the files of the data set `name` from its whole parts: all of MNIST, some images of CIFAR-100."""
    names = class_names(name)
    counts = {}
    for part, (images, labels) in parts.items():
        by_class = [np.flatnonzero(labels == label) for label in range(len(names))]
        if name == "cifar100_quick":
            by_class = [rows[: CIFAR100_QUICK[part]] for rows in by_class]
        _write(folder / f"{name}.{part}.webp", images[np.concatenate(by_class)])
        counts[part] = [len(rows) for rows in by_class]
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["class", *counts])
        writer.writerows(zip(names, *counts.values(), strict=True))


def _write(path: Path, images: np.ndarray) -> None:
    number, height, width, num_channels = images.shape
    columns = math.ceil(math.sqrt(number))
    rows = math.ceil(number / columns)
    tiles = np.zeros((rows * columns, height, width, num_channels), np.uint8)
    tiles[:number] = images
    mosaic = tiles.reshape(rows, columns, height, width, num_channels).swapaxes(1, 2)
    mosaic = mosaic.reshape(rows * height, columns * width, num_channels)
    Image.fromarray(mosaic.squeeze(-1) if num_channels == 1 else mosaic).save(
        path, lossless=True, quality=100, method=6
    )
