"""Read a prepared data set: its description, and its arrays, cut into training, validation and test sets."""

import hashlib
import math
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, PositiveInt

from pipeline.errors import InputError
from pipeline.files.untrusted import Sha256, Untrusted, read_json
from pipeline.study.benchmark import Split

DATA = Path("data")
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


class Description(Untrusted):
    """Describe a prepared data set. The file `dataset.json` holds the description.

    `came_from` names the source. `image_shape` is the height and width in pixels and the number of channels. `classes`
    names the classes in the order of their labels. `sha256` has the SHA-256 of the values of each array in `ARRAYS`.
    """

    model_config = ConfigDict(extra="allow")

    name: str
    came_from: str = "TFDS"
    image_shape: tuple[PositiveInt, PositiveInt, PositiveInt]
    classes: Annotated[list[str], Field(min_length=1)]
    sha256: dict[str, Sha256]


def read_description(name: str, root: Path = DATA) -> Description:
    """Return the description of the data set `name` under `root`.

    If the file is missing, too large or damaged, raise an `InputError` that says how to prepare the data set again.
    """
    return read_json(Description, root / name / "dataset.json", _remedy(name))


def _remedy(name: str) -> str:
    return f"Prepare it again with: dvc repro download@{name}"


def num_train_bytes(name: str, split: Split) -> int:
    """Return the size in bytes of the training images that `split` takes from the data set `name`."""
    return split.num_train_examples * math.prod(read_description(name).image_shape)


class Examples(NamedTuple):
    """Hold images (N, H, W, C) in uint8 and integer labels (N,)."""

    images: np.ndarray
    labels: np.ndarray

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the images (n, H, W, C) and labels (n,) with the row numbers `rows` (n,), in the order of `rows`."""
        return self.images[rows], self.labels[rows]

    def first(self, count: int) -> "Examples":
        """Return the first `count` examples, or all if there are fewer."""
        return Examples(self.images[:count], self.labels[:count])


class Dataset(NamedTuple):
    train: Examples
    validation: Examples
    test: Examples
    num_classes: int
    sha256: str
    came_from: str

    @property
    def num_channels(self) -> int:
        return int(self.train.images.shape[-1])


def load_dataset(name: str, split: Split) -> Dataset:
    """Return the data set `name` with its training examples cut as `split` says. The test set stays whole.

    Images are uint8, and labels are int32.

    Raises:
        InputError: the description or an array is missing or damaged, an array does not have its recorded SHA-256, or
            `split` asks for more training and validation examples than the data set has.
    """
    description = read_description(name)
    train_images, train_labels, test_images, test_labels = (
        _read(DATA / name / f"{array}.npy", description.sha256.get(array), _remedy(name)) for array in ARRAYS
    )
    train_labels, test_labels = train_labels.astype(np.int32), test_labels.astype(np.int32)  # JAX lacks int64
    wanted = split.num_train_examples + split.num_validation_examples
    available = len(train_labels)
    if wanted > available:
        raise InputError(
            f"split: num_train_examples and num_validation_examples add up to {wanted:,}; {name} has {available:,} "
            f"training examples. If it should have more: {_remedy(name)}"
        )
    if split.shuffle_seed is not None:
        order = np.random.default_rng(split.shuffle_seed).permutation(available)
        train_images, train_labels = train_images[order], train_labels[order]
    end, start = split.num_train_examples, available - split.num_validation_examples
    return Dataset(
        train=Examples(train_images[:end], train_labels[:end]),
        validation=Examples(train_images[start:], train_labels[start:]),
        test=Examples(test_images, test_labels),
        num_classes=len(description.classes),
        sha256=hashlib.sha256("".join(description.sha256[array] for array in ARRAYS).encode()).hexdigest(),
        came_from=description.came_from,
    )


def labels_of_test(name: str) -> np.ndarray:
    """Return the true labels of the test set, int64 (num_test_examples,), in the order of the test images.

    Raises:
        InputError: the description or the labels are missing or damaged.
    """
    return _read(DATA / name / "test_labels.npy", read_description(name).sha256.get("test_labels"), _remedy(name))


def _read(path: Path, sha256: str | None, remedy: str) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
        if hashlib.sha256(array.data).hexdigest() == sha256:
            return array
    except FileNotFoundError:
        raise InputError(f"{path} is missing. {remedy}") from None
    except (OSError, ValueError, EOFError):  # NumPy raises these if the file was cut off
        pass
    raise InputError(f"{path} has changed since it was prepared. {remedy}")
