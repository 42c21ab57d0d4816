"""Check the content of known data sets, so that every source gives the same arrays. Read the bundled data sets.

A bundled data set comes with this project. Each of its parts, train and test, is one lossless WebP picture: a mosaic
of all images, class by class. A CSV file gives the number of images of each class, with one column for each part.
"""

import csv
import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from pipeline.data.datasets import Examples
from pipeline.errors import InputError

BUNDLED = Path(__file__).parent / "bundled"


class Known(NamedTuple):
    """Describe a data set whose content is known.

    `content_sha256` has a digest for each part, train and test. To compute it, take the SHA-256 of each example (the
    image's bytes, then the label in one byte), sort these digests, and take the SHA-256 of all of them. So the order of
    the examples does not matter. The CSV file `classes` names the classes in the order of their labels.
    """

    image_shape: tuple[int, int, int]
    content_sha256: dict[str, str]
    classes: Path


KNOWN = {
    "mnist": Known(
        (28, 28, 1),
        {
            "train": "54e1ab866c9484947dd4821c52bb7a43938f555d6b046be6af55247f8e6ffc64",
            "test": "97b756d55950f1841ebd48df7379b9b2fc87a10d63e08d6213dad41d564e8508",
        },
        BUNDLED / "mnist.csv",
    ),
    "cifar100": Known(
        (32, 32, 3),
        {
            "train": "640c97a4012a8aebfcaf57fd82a33dd43b37d2e397a02cb9b0a3d89e6d6d936d",
            "test": "a6a97df7b61bc7420bc44268696e8963d33129bc050978f2a63d8fe3420989fa",
        },
        BUNDLED / "cifar100_quick.csv",
    ),
    "cifar100_quick": Known(
        (32, 32, 3),
        {
            "train": "5b317e22f71bf8acf1d4a081e1aef745dccb7750026490d921a10c398c93bee2",
            "test": "5c591a80ce20c78df15f4c20da069671445e9d9d742221ef15f646a20a48e483",
        },
        BUNDLED / "cifar100_quick.csv",
    ),
}


def in_order(images: np.ndarray, labels: np.ndarray) -> tuple[Examples, str]:
    """Return the examples sorted by their digests, and the digest of the whole part, both as `Known` defines them.

    The examples are sorted because sources list them in different orders, and splits are cut by position. The labels
    become int64.

    Args:
        images: uint8 (N, H, W, C).
        labels: integer (N,), each less than 256.
    """
    digests = [
        hashlib.sha256(image.tobytes() + bytes([label])).digest() for image, label in zip(images, labels, strict=True)
    ]
    order = np.array(sorted(range(len(digests)), key=digests.__getitem__))
    content = hashlib.sha256(b"".join(digests[row] for row in order)).hexdigest()
    return Examples(images[order], labels[order].astype(np.int64)), content


def checked(name: str, parts: dict[str, Examples]) -> dict[str, Examples]:
    """Return `parts`, which are parts of the data set `name`, with the examples of each part sorted by digest.

    Raises:
        InputError: a part does not have the known content of `name`.
    """
    found = {}
    for part, (images, labels) in parts.items():
        found[part], content = in_order(images, labels)
        if content != KNOWN[name].content_sha256[part]:
            raise InputError(f"the {part} images and labels differ from those of {name}")
    return found


def class_names(name: str) -> list[str]:
    """Return the class names of the data set `name`, in the order of its labels."""
    return [row["class"] for row in _rows(KNOWN[name].classes)]


def read_bundled(name: str) -> dict[str, Examples]:
    """Return the parts train and test of the bundled data set `name`, with the examples of each sorted by digest."""
    counts = _rows(BUNDLED / f"{name}.csv")
    return checked(name, {part: _read(name, part, counts) for part in ("train", "test")})


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _read(name: str, part: str, counts: list[dict[str, str]]) -> Examples:
    height, width, num_channels = KNOWN[name].image_shape
    with Image.open(BUNDLED / f"{name}.{part}.webp") as picture:
        mosaic = np.asarray(picture)[:, :, :num_channels]  # WebP stores gray as three equal channels
    rows, columns = mosaic.shape[0] // height, mosaic.shape[1] // width
    tiles = mosaic.reshape(rows, height, columns, width, num_channels).swapaxes(1, 2)
    labels = np.repeat(np.arange(len(counts)), [int(each[part]) for each in counts])
    return Examples(tiles.reshape(-1, height, width, num_channels)[: len(labels)], labels)
