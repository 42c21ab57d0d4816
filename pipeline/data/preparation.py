"""Turn a data set of TFDS into arrays on disk, some images at a time: none has to fit into memory."""

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.data.datasets import DATA
from pipeline.errors import InputError
from pipeline.files.writing import whole
from pipeline.study import user_code
from pipeline.study.dataset_source import DatasetSource

BATCH_BYTES = 2**26  # of decoded images at a time
Batches = Iterable[tuple[np.ndarray, np.ndarray]]


class _Features(NamedTuple):
    """Name the two features of a supervised example, with TFDS's facts about them."""

    image: str
    label: str
    shape: tuple[int | None, ...]
    classes: list[str]


def prepare(name: str, source: DatasetSource, root: Path = DATA) -> Path:
    """Write `root/name`: one array a file and `dataset.json`, all of it or nothing. Return the folder.

    Images become uint8 (N, H, W, C); floats in [0, 1] are scaled and rounded. Example order is that of TFDS without
    shuffling. TFDS looks in `TFDS_DATA_DIR` before it asks the network.

    Raises:
        InputError: TFDS has neither the data set nor a way to fetch it; the text then says what to put where. Or the
            data set is faulty, or is not one of images in classes; the text then says how.
    """
    where = f"datasets.{name}"
    builder = _builder(name, source)
    features = _features(where, builder.info, source)
    _download(name, source, builder)
    counts = _num_examples(where, builder.info, source)
    with whole(root / name) as partial:
        partial.mkdir()
        digests: dict[str, str] = {}
        shapes = []
        for part, split in (("train", source.train), ("test", source.test)):
            batches = _batches(f"{where}.{part}", builder, split, features, source.image_size)
            shapes.append(_write(partial, part, counts[part], batches, digests))
        if len(found := np.unique(np.load(partial / "train_labels.npy"))) < 2:
            raise InputError(f"{where}.train: every example is of class {found[0]}; there must be two classes or more.")
        if shapes[0] != shapes[1]:
            raise InputError(f"{where}: images of {source.train} are {shapes[0]}, those of {source.test} {shapes[1]}.")
        description = {
            "name": builder.info.full_name,
            "num_train_examples": counts["train"],
            "num_test_examples": counts["test"],
            "image_shape": list(shapes[0]),
            "classes": features.classes,
            "sha256": digests,
        }
        (partial / "dataset.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return root / name


def _builder(name: str, source: DatasetSource) -> Any:
    import tensorflow_datasets as tfds  # only preparing data needs it

    logging.getLogger("urllib3").setLevel(logging.ERROR)  # one line a retry, for minutes, where there is no network
    logging.getLogger("absl").setLevel(logging.ERROR)  # TFDS warns of itself
    if source.module and source.source:
        user_code.load_module(source.module, Path(source.source))
    try:
        return tfds.builder(source.tfds)
    except Exception as error:  # TFDS raises whatever its network, file system and archive libraries raise
        raise _not_fetched(name, source, error) from None


def _download(name: str, source: DatasetSource, builder: Any) -> None:
    try:
        builder.download_and_prepare()
    except Exception as error:
        raise _not_fetched(name, source, error) from None


def _not_fetched(name: str, source: DatasetSource, error: Exception) -> InputError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = " … ".join(line[:300] for line in dict.fromkeys([lines[0], lines[-1]]))
    text = f"Data set '{source.tfds}' could not be fetched: {reason}\n"
    if source.module:
        return InputError(f"{text}Its builder is in {source.module}, which {source.source} holds.")
    folder = source.tfds.partition(":")[0]
    return InputError(
        f"{text}Either connect this machine to the network, or set TFDS_DATA_DIR to a folder that holds the data set "
        f"as TFDS prepares it ({folder}/<version>/ with dataset_info.json and its tfrecord files), copied from a "
        f"machine where `python -m stages.download --dataset {name}` has run (there in ~/tensorflow_datasets)."
    )


def _features(where: str, info: Any, source: DatasetSource) -> _Features:
    """Check the features before anything is fetched, and return them."""
    import tensorflow_datasets as tfds

    names: Any = (source.image, source.label) if source.image else info.supervised_keys
    if not names and {"image", "label"} <= set(info.features):  # files that another program wrote say no pair
        names = ("image", "label")
    if not names or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{where}: {source.tfds} does not say which of its features are image and label. "
            f"Name both, of {', '.join(sorted(info.features))}."
        )
    for field, name in zip(("image", "label"), names, strict=True):
        if name not in info.features:
            raise InputError(f"{where}.{field}: must be one of {', '.join(sorted(info.features))}. Received: {name!r}")
    image, label = (info.features[name] for name in names)
    dtype = np.dtype(image.np_dtype) if hasattr(image, "np_dtype") else None
    if not isinstance(image, tfds.features.Image | tfds.features.Tensor) or len(image.shape) != 3:
        raise InputError(f"{where}.image: {names[0]} must be an image of height, width and channels. Received: {image}")
    if dtype not in (np.uint8, np.float32, np.float64):
        raise InputError(f"{where}.image: {names[0]} must be uint8, or a float in [0, 1]. Received: {dtype}")
    if not isinstance(label, tfds.features.ClassLabel):
        raise InputError(f"{where}.label: {names[1]} must be a ClassLabel, one number a class. Received: {label}")
    if label.num_classes is None or label.num_classes < 2:
        raise InputError(f"{where}.label: {names[1]} must have two classes or more. Received: {label.num_classes}")
    return _Features(names[0], names[1], image.shape, label.names)


def _num_examples(where: str, info: Any, source: DatasetSource) -> dict[str, int]:
    """Count the examples of both splits, and refuse splits that share any."""
    files: dict[str, list[tuple[str, int, int]]] = {}
    counts = {}
    for part, split in (("train", source.train), ("test", source.test)):
        try:
            found = info.splits[split]
            files[part] = [(file.filename, file.skip, file.skip + file.take) for file in found.file_instructions]
        except ValueError as error:
            known = ", ".join(info.splits)
            raise InputError(
                f"{where}.{part}: {source.tfds} has splits {known}. {str(error).splitlines()[0]}"
            ) from None
        counts[part] = found.num_examples
        if not counts[part]:
            raise InputError(f"{where}.{part}: {split!r} has no example.")
    for file, start, stop in files["train"]:
        if any(file == other and start < last and first < stop for other, first, last in files["test"]):
            raise InputError(f"{where}: {source.train!r} and {source.test!r} have examples in common.")
    return counts


def _batches(where: str, builder: Any, split: str, features: _Features, image_size: int | None) -> Batches:
    """Yield checked images in uint8 (n, H, W, C), with their labels (n,)."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    wanted = tfds.decode.PartialDecoding({features.image: True, features.label: True})
    examples = builder.as_dataset(split=split, decoders=wanted)
    height, width, num_channels = features.shape
    if image_size:
        height = width = image_size
        examples = examples.map(lambda each: each | {features.image: _resized(tf, each[features.image], image_size)})
    # Where TFDS does not know all sizes, images come one by one, so that the first odd one can be named.
    image_bytes = 4 * (height or 0) * (width or 0) * (num_channels or 0)
    examples = examples.batch(max(1, BATCH_BYTES // image_bytes) if image_bytes else 1)
    first = None
    for batch in tfds.as_numpy(examples.prefetch(1)):
        images, labels = batch[features.image], batch[features.label].astype(np.int64)
        first = first or images.shape[1:]
        if images.shape[1:] != first:
            raise InputError(
                f"{where}: images have several sizes, {first} and {images.shape[1:]} among them. "
                "Give the data set an image_size, to which they are resized."
            )
        if images.dtype != np.uint8:
            low, high = images.min(), images.max()
            if not (low >= 0 and high <= 1):  # not a number among them
                raise InputError(f"{where}: float images must lie in [0, 1]. Received: {low:g} to {high:g}")
            images = np.rint(images * 255).astype(np.uint8)
        if labels.min() < 0 or labels.max() >= len(features.classes):
            raise InputError(
                f"{where}: labels must be 0 to {len(features.classes) - 1}, one for each class. "
                f"Received: {labels.min()} to {labels.max()}"
            )
        yield images, labels


def _resized(tf: Any, image: Any, size: int) -> Any:
    """Resize images bilinearly, averaging where they shrink; uint8 stays uint8."""
    resized = tf.image.resize(image, (size, size), antialias=True)
    return tf.cast(tf.round(resized), tf.uint8) if image.dtype == tf.uint8 else resized


def _write(folder: Path, part: str, num_examples: int, batches: Batches, digests: dict[str, str]) -> tuple[int, ...]:
    """Write the two arrays of `part` and enter their SHA-256 in `digests`; return the shape of an image."""
    names, written = (f"{part}_images", f"{part}_labels"), 0
    found = [hashlib.sha256(), hashlib.sha256()]
    arrays: list[np.ndarray] = []
    for batch in batches:
        if not arrays:
            arrays = [
                np.lib.format.open_memmap(
                    folder / f"{name}.npy", mode="w+", dtype=values.dtype, shape=(num_examples, *values.shape[1:])
                )
                for name, values in zip(names, batch, strict=True)
            ]
        for array, values, digest in zip(arrays, batch, found, strict=True):
            array[written : written + len(values)] = values
            digest.update(np.ascontiguousarray(values).data)
        written += len(batch[1])
    if written != num_examples:
        raise InputError(f"{folder.name}: {part} has {written} examples where TFDS says {num_examples}.")
    for array in arrays:
        array.flush()  # type: ignore[attr-defined]
    digests |= {name: digest.hexdigest() for name, digest in zip(names, found, strict=True)}
    return tuple(arrays[0].shape[1:])
