"""Data sets: from TFDS to arrays on disk, and from there into training, validation and test."""

import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.benchmark import Split
from pipeline.errors import InputError

ROOT = Path("data")
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


class Examples(NamedTuple):
    """Images (N, H, W, C) in uint8 and integer labels (N,)."""

    images: np.ndarray
    labels: np.ndarray


class Dataset(NamedTuple):
    train: Examples
    validation: Examples
    test: Examples
    num_classes: int
    sha256: str

    @property
    def num_channels(self) -> int:
        return int(self.train.images.shape[-1])


def download(name: str, root: Path = ROOT) -> Path:
    """Writes `root/name`: one array a file and `dataset.json`, all of it or nothing. Returns the folder.

    Example order is that of TFDS without shuffling. TFDS looks in `TFDS_DATA_DIR` before it asks the network.

    Raises:
        InputError: TFDS has neither a prepared data set nor a way to fetch it; the text says what to put where.
    """
    directory, partial = root / name, root / f"{name}.partial"
    arrays, description = _read_tfds(name)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for array_name, array in arrays.items():
        np.save(partial / f"{array_name}.npy", array)
    description["sha256"] = {array_name: _sha256(array) for array_name, array in arrays.items()}
    (partial / "dataset.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(directory, ignore_errors=True)
    partial.replace(directory)
    return directory


def _read_tfds(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    import tensorflow_datasets as tfds  # only preparing data needs it

    logging.getLogger("urllib3").setLevel(logging.ERROR)  # one line a retry, for minutes, where there is no network
    try:
        builder = tfds.builder(name)
        builder.download_and_prepare()
    except Exception as error:  # TFDS raises whatever its network, file system and archive libraries raise
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"Data set '{name}' could not be fetched: {reason[0][:300]}\n"
            f"Either connect this machine to the network, or set TFDS_DATA_DIR to a folder that holds the data set as "
            f"TFDS prepares it ({name}/<version>/ with dataset_info.json and its tfrecord files), copied from a "
            f"machine where `python -m stages.download --dataset {name}` has run (there in ~/tensorflow_datasets)."
        ) from None
    arrays = {}
    for split in ("train", "test"):
        batches = tfds.as_numpy(builder.as_dataset(split=split, batch_size=1000, as_supervised=True))
        images, labels = zip(*batches, strict=True)
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = np.concatenate(images), np.concatenate(labels)
    description = {
        "name": builder.info.full_name,
        "num_train_examples": len(arrays["train_labels"]),
        "num_test_examples": len(arrays["test_labels"]),
        "image_shape": list(arrays["train_images"].shape[1:]),
        "classes": builder.info.features["label"].names,
    }
    return arrays, description


def load(name: str, split: Split, root: Path = ROOT) -> Dataset:
    """The data set cut as `split` says; the test set whole.

    Raises:
        InputError: a file is missing or its content does not have the recorded SHA-256, or the split asks for more
            examples than there are.
    """
    directory = root / name
    remedy = f"Prepare it again with: dvc repro --force --single-item download@{name}"
    try:
        description = json.loads((directory / "dataset.json").read_text(encoding="utf-8"))
        arrays = {array_name: np.load(directory / f"{array_name}.npy") for array_name in ARRAYS}
    except FileNotFoundError as error:
        raise InputError(f"{error.filename} is missing. {remedy}") from None
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"A file of {directory} is damaged: {error}. {remedy}") from None
    for array_name, array in arrays.items():
        if _sha256(array) != description["sha256"][array_name]:
            raise InputError(f"{directory / array_name}.npy is not the file that was prepared. {remedy}")

    wanted = split.num_train_examples + split.num_validation_examples
    available = len(arrays["train_labels"])
    if wanted > available:
        raise InputError(f"The split asks for {wanted} examples, and {name} has {available} training examples.")
    order = np.arange(available)
    if split.shuffle_seed is not None:
        order = np.random.default_rng(split.shuffle_seed).permutation(available)
    train, validation = order[: split.num_train_examples], order[available - split.num_validation_examples :]

    def examples(part: str, rows: np.ndarray | slice) -> Examples:
        return Examples(arrays[f"{part}_images"][rows], arrays[f"{part}_labels"][rows])

    digest = hashlib.sha256("".join(description["sha256"][array_name] for array_name in ARRAYS).encode())
    return Dataset(
        train=examples("train", train),
        validation=examples("train", validation),
        test=examples("test", slice(None)),
        num_classes=len(description["classes"]),
        sha256=digest.hexdigest(),
    )


def _sha256(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
