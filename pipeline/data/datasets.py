"""Read prepared data sets: what describes them, and their arrays, cut into training, validation and test."""

import hashlib
import os
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, PositiveInt

from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, Sha256, Untrusted, read_json
from pipeline.files.untrusted_arrays import map_integers
from pipeline.study.benchmark import Split

DATA = Path("data")
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
IN_MEMORY_SHARE = 0.25  # of this machine's memory; images that take more of it stay on disk


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


def read_description(name: str, root: Path = DATA) -> Description:
    """Return the description of the data set `name` under `root`.

    Raise an `InputError` that says how to prepare it again, if that fails.
    """
    return read_json(Description, root / name / "dataset.json", _remedy(name))


def _remedy(name: str) -> Remedy:
    return Remedy(*[f"Prepare it again with: dvc repro --force --single-item download@{name}"] * 2)


class ImagesOnDisk:
    """Read rows of a memory-mapped array of images (N, H, W, C) as they are asked for.

    It is indexed as an array is, by a slice or by integers (n,), and returns an array.
    """

    def __init__(self, array: np.ndarray, rows: np.ndarray) -> None:
        self._array = array
        self._rows = rows
        self.shape = (len(rows), *array.shape[1:])
        self.dtype = array.dtype

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray:
        rows = self._rows[index]
        order = np.argsort(rows, kind="stable")  # a disk reads forwards faster
        images = np.empty((len(rows), *self.shape[1:]), self.dtype)
        images[order] = self._array[rows[order]]
        return images


class Examples(NamedTuple):
    """Hold images (N, H, W, C) in uint8 and integer labels (N,)."""

    images: np.ndarray | ImagesOnDisk
    labels: np.ndarray

    @property
    def in_memory(self) -> bool:
        return isinstance(self.images, np.ndarray)


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


def load_dataset(name: str, split: Split, root: Path = DATA, max_bytes_in_memory: int | None = None) -> Dataset:
    """Return the data set, cut as `split` says; the test set stays whole.

    Args:
        max_bytes_in_memory: where the images of the three parts take more, they stay on disk; by default a quarter of
            this machine's memory. Batches are the same either way.

    Raises:
        InputError: a file is missing or its content does not have the recorded SHA-256, or the split asks for more
            examples than there are.
    """
    description = read_description(name, root)
    digests = description.sha256.model_dump()
    paths = {array_name: root / name / f"{array_name}.npy" for array_name in ARRAYS}
    arrays = {array_name: map_integers(path, _remedy(name)) for array_name, path in paths.items()}
    for array_name, array in arrays.items():
        path = paths[array_name]
        if not _fits(array_name, array, arrays) or _sha256(path, array.offset) != digests[array_name]:
            raise InputError(f"{path} is not the file that was prepared. {_remedy(name).damaged}")

    wanted = split.num_train_examples + split.num_validation_examples
    available = len(arrays["train_labels"])
    if wanted > available:
        raise InputError(f"The split asks for {wanted} examples, and {name} has {available} training examples.")
    order = np.arange(available)
    if split.shuffle_seed is not None:
        order = np.random.default_rng(split.shuffle_seed).permutation(available)
    rows = {
        "train": order[: split.num_train_examples],
        "validation": order[available - split.num_validation_examples :],
        "test": np.arange(len(arrays["test_labels"])),
    }
    if max_bytes_in_memory is None:
        max_bytes_in_memory = int(IN_MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    num_bytes = sum(map(len, rows.values())) * arrays["train_images"][0].nbytes

    def examples(part: str) -> Examples:
        prefix = "test" if part == "test" else "train"
        images, labels = arrays[f"{prefix}_images"], arrays[f"{prefix}_labels"][rows[part]]
        fits = num_bytes <= max_bytes_in_memory
        return Examples(images[rows[part]] if fits else ImagesOnDisk(images, rows[part]), labels)

    digest = hashlib.sha256("".join(digests[array_name] for array_name in ARRAYS).encode())
    return Dataset(
        train=examples("train"),
        validation=examples("validation"),
        test=examples("test"),
        num_classes=len(description.classes),
        sha256=digest.hexdigest(),
        came_from=description.came_from,
    )


def _fits(name: str, array: np.memmap, arrays: dict[str, np.memmap]) -> bool:
    """Return whether an array has the dimensions and numbers that its name says, and as many rows as its partner."""
    part, kind = name.split("_")
    if kind == "images":
        return array.ndim == 4 and array.dtype == np.uint8
    return array.ndim == 1 and array.dtype.kind in "iu" and arrays[f"{part}_images"].shape[:1] == array.shape


def _sha256(path: Path, offset: int) -> str:
    """Return the digest of the array that begins at `offset` of the file."""
    with path.open("rb") as file:
        file.seek(offset)
        return hashlib.file_digest(file, "sha256").hexdigest()
