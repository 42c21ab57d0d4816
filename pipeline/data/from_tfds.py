"""Read the images and labels of any data set of TFDS, some at a time: none has to fit into memory."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.data.known import Part
from pipeline.errors import InputError
from pipeline.study import user_code
from pipeline.study.dataset_source import DatasetSource

BATCH_BYTES = 2**26  # of decoded images at a time


class FromTfds(NamedTuple):
    """Hold a data set that TFDS has: its full name, its classes, and the examples of each part in batches."""

    full_name: str
    classes: list[str]
    num_examples: dict[str, int]
    batches: dict[str, Iterable[Part]]


class _Features(NamedTuple):
    """Name the two features of a supervised example, with TFDS's facts about them."""

    image: str
    label: str
    shape: tuple[int | None, ...]
    classes: list[str]


def read_tfds(name: str, source: DatasetSource) -> FromTfds:
    """Fetch a data set, unless TFDS finds it in `TFDS_DATA_DIR`, and return its batches in the order of TFDS.

    Images become uint8 (n, H, W, C); floats in [0, 1] are scaled and rounded. A batch is read when it is asked for.

    Raises:
        InputError: TFDS has neither the data set nor a way to fetch it; the text then says what to put where. Or the
            data set is faulty, or is not one of images in classes; the text then says how.
    """
    where = f"datasets.{name}"
    builder = _builder(source)
    features = _features(where, builder.info, source)
    _download(source, builder)
    rows = cut(where, source, builder.info.splits)
    counts = {part: sum(len(of) for _, of in rows[part]) for part in rows}
    batches = {
        part: _batches(f"{where}.{part}", builder, split, features, source.image_size)
        for part, split in (("train", source.train), ("test", source.test))
    }
    return FromTfds(builder.info.full_name, features.classes, counts, batches)


def _builder(source: DatasetSource) -> Any:
    import pipeline.engine  # noqa: F401  TensorFlow, without its chatter

    # isort: split
    import tensorflow_datasets as tfds

    logging.getLogger("urllib3").setLevel(logging.ERROR)  # one line a retry, for minutes, where there is no network
    logging.getLogger("absl").setLevel(logging.ERROR)  # TFDS warns of itself
    if source.module and source.source:
        user_code.load_module(source.module, Path(source.source))
    try:
        return tfds.builder(source.tfds)
    except Exception as error:  # TFDS raises whatever its network, file system and archive libraries raise
        raise _not_fetched(source, error) from None


def _download(source: DatasetSource, builder: Any) -> None:
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()  # which is for terminals, and this is told of in lines
    if not builder.is_prepared():
        print(f"TFDS prepares {source.tfds}; without a route to its host it tries for some minutes", flush=True)
    try:
        builder.download_and_prepare()
    except Exception as error:
        raise _not_fetched(source, error) from None


def _not_fetched(source: DatasetSource, error: Exception) -> InputError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = "\n  ".join(dict.fromkeys([lines[0], lines[-1]]))
    text = f"Data set '{source.tfds}' could not be fetched:\n  {reason}\n"
    if source.module:
        return InputError(f"{text}Its builder is in {source.module}, which {source.source} holds.")
    folder = source.name.partition(":")[0]
    return InputError(
        f"{text}Connect this machine to the network and run the command again. Or copy ~/tensorflow_datasets/{folder} "
        "from a machine that has it,\nand set TFDS_DATA_DIR to the folder in which the copy lies."
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


def cut(where: str, source: DatasetSource, splits: Mapping[str, Any]) -> dict[str, list[tuple[str, range]]]:
    """Return the rows that the study's splits take of each of a data set's own, by part; refuse parts that share any.

    Args:
        splits: TFDS's facts about the data set's own splits.
    """
    import tensorflow_datasets as tfds

    found: dict[str, list[tuple[str, range]]] = {}
    for part, split in (("train", source.train), ("test", source.test)):
        try:
            pieces = tfds.core.ReadInstruction.from_spec(split).to_absolute(splits)
        except (AssertionError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{where}.{part}: {source.name} has splits {', '.join(splits)}. {reason}") from None
        found[part] = [
            (piece.splitname, range(splits[piece.splitname].num_examples)[piece.from_ : piece.to]) for piece in pieces
        ]
        if not any(rows for _, rows in found[part]):
            raise InputError(f"{where}.{part}: {split!r} has no example.")
    for of, rows in found["train"]:
        if any(
            of == other and range(max(rows.start, more.start), min(rows.stop, more.stop))
            for other, more in found["test"]
        ):
            raise InputError(f"{where}: {source.train!r} and {source.test!r} have examples in common.")
    return found


def _batches(where: str, builder: Any, split: str, features: _Features, image_size: int | None) -> Iterable[Part]:
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
