"""Read labeled images from TensorFlow Datasets (TFDS), and cut splits in TFDS's notation, such as `train[:80%]`.

Importing this module takes seconds, because it imports TensorFlow.
"""

import difflib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pipeline.engine  # noqa: F401  so that TensorFlow starts silently

# isort: split
import tensorflow as tf
import tensorflow_datasets as tfds

from pipeline.data.datasets import Examples
from pipeline.errors import InputError
from pipeline.study import user_code
from pipeline.study.dataset_source import DatasetSource

MAX_ROUNDING = 0.05  # root mean square of the rounding error, as a share of the images' standard deviation


def read_tfds(where: str, source: DatasetSource) -> tuple[str, list[str], dict[str, Examples]]:
    """Return a data set's full name, the names of its classes, and its examples under `train` and `test`.

    Have TFDS fetch the data set, unless TFDS's folder already holds it: TFDS_DATA_DIR, or else ~/tensorflow_datasets.
    Images become uint8 (N, H, W, C), and labels int64 (N,), in TFDS's order. Floats in [0, 1] are scaled to [0, 255]
    and rounded.

    Args:
        where: the place in the study that names the data set, for messages.

    Raises:
        InputError: TFDS can't find or fetch the data set, the user's module can't be imported, `train` or `test` is no
            valid split, or the data are not labeled images that can be stored as bytes. The message says why, or what
            to do.
    """
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # without a network, urllib3 logs retries for minutes
    logging.getLogger("absl").setLevel(logging.ERROR)  # hides TFDS's warnings
    tfds.disable_progress_bar()  # the bar suits terminals only; lines are printed here instead
    if source.module and source.source:
        user_code.load_module(source.module, Path(source.source))
    try:
        builder = tfds.builder(source.tfds)
        image, label = _features(where, builder.info, source)  # before anything is fetched
        if not builder.is_prepared():
            print(f"TFDS prepares {source.tfds}; without a route to its host it tries for some minutes", flush=True)
        builder.download_and_prepare()
    except InputError:
        raise
    except Exception as error:  # TFDS raises whatever its network, file system and archive libraries raise
        raise _not_fetched(source, error) from None
    chosen_rows(where, source, builder.info.splits)
    parts = {
        part: _arrays(f"{where}.{part}", builder, split, image, label, source.image_size)
        for part, split in (("train", source.train), ("test", source.test))
    }
    return builder.info.full_name, builder.info.features[label].names, parts


def _not_fetched(source: DatasetSource, error: Exception) -> InputError:
    folder = source.name.partition(":")[0]
    if isinstance(error, tfds.core.DatasetNotFoundError):
        near = difflib.get_close_matches(folder, tfds.list_builders(with_community_datasets=False), 1)
        hint = f"Did you mean {near[0]}? " if near else ""
        there = f"{source.module} registers none" if source.module else "TFDS_DATA_DIR is no folder that holds one"
        return InputError(
            f"TFDS has no data set '{source.tfds}', and {there}. {hint}Those it has: "
            "https://www.tensorflow.org/datasets/catalog/overview"
        )
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = "\n  ".join(dict.fromkeys([lines[0], lines[-1]]))
    text = f"Data set '{source.tfds}' could not be fetched:\n  {reason}\n"
    if source.module:
        return InputError(f"{text}Its builder is in {source.module}, which {source.source} holds.")
    return InputError(
        f"{text}Connect this machine to the network and run the command again. Or copy ~/tensorflow_datasets/{folder} "
        "from a machine that has it,\nand set TFDS_DATA_DIR to the folder in which the copy lies."
    )


def _features(where: str, info: Any, source: DatasetSource) -> tuple[str, str]:
    """Return the names of the image feature and the label feature.

    Raises:
        InputError: the data set does not hold labeled images of an accepted dtype and size.
    """
    names: Any = (source.image, source.label) if source.image else info.supervised_keys
    if not names and {"image", "label"} <= set(info.features):  # data written by another program name no keys
        names = ("image", "label")
    there = ", ".join(sorted(info.features))
    if not names or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{where}: {source.tfds} does not say which feature is the image and which the label. "
            f"Name both, of {there}."
        )
    for field, name in zip(("image", "label"), names, strict=True):
        if name not in info.features:
            raise InputError(f"{where}.{field}: must be one of {there}. Received: {name!r}")
    image, label = (info.features[name] for name in names)
    if not isinstance(image, tfds.features.Image | tfds.features.Tensor) or len(image.shape) != 3:
        raise InputError(f"{where}.image: {names[0]} must be an image of height, width and channels. Received: {image}")
    if image.np_dtype not in (np.uint8, np.float32, np.float64):
        raise InputError(
            f"{where}.image: {names[0]} must be uint8, or a float in [0, 1]. Received: {image.np_dtype}. Have your "
            "builder scale the values that images really have, not those that the type could hold, to [0, 1]"
        )
    if None in image.shape[:2] and not source.image_size:
        raise InputError(f"{where}: images may have several sizes. Give image_size, and they are resized to it.")
    if not isinstance(label, tfds.features.ClassLabel):
        raise InputError(
            f"{where}.label: {names[1]} must be a ClassLabel, with a number for each class. Received: {label}"
        )
    return names[0], names[1]


def _arrays(where: str, builder: Any, split: str, image: str, label: str, image_size: int | None) -> Examples:
    def resized(example: Any) -> Any:
        """Resize the example's image bilinearly, with antialiasing if it shrinks. A uint8 image stays uint8."""
        found = tf.image.resize(example[image], (image_size, image_size), antialias=True)
        return example | {image: tf.cast(tf.round(found), tf.uint8) if example[image].dtype == tf.uint8 else found}

    examples = builder.as_dataset(split=split, decoders=tfds.decode.PartialDecoding({image: True, label: True}))
    batches = list(tfds.as_numpy((examples.map(resized) if image_size else examples).batch(1000)))
    images = np.concatenate([batch[image] for batch in batches])
    labels = np.concatenate([batch[label] for batch in batches]).astype(np.int64)
    if num_unlabelled := np.count_nonzero(labels < 0):  # TFDS gives -1 if a contest keeps labels secret
        raise InputError(f"{where}: {num_unlabelled:,} of {len(labels):,} examples have no label. Use another split.")
    if images.dtype != np.uint8:
        low, high = images.min(), images.max()
        if not (low >= 0 and high <= 1):  # catches NaN too
            raise InputError(f"{where}: float images must lie in [0, 1]. Received: {low:g} to {high:g}")
        in_bytes = np.rint(images * 255).astype(np.uint8)
        error = in_bytes.astype(images.dtype)
        error /= 255
        error -= images
        loss = np.sqrt(np.square(error, out=error).mean()) / images.std() if high > low else 0.0
        if loss > MAX_ROUNDING:
            raise InputError(
                f"{where}: images become bytes, which would round away too much of these. They lie between {low:.3g} "
                f"and {high:.3g}, and the error would be {loss:.0%} of their standard deviation. Have your builder "
                "scale the values that images really have to [0, 1]"
            )
        images = in_bytes
    return Examples(images, labels)


def chosen_rows(where: str, source: DatasetSource, splits: Mapping[str, Any]) -> dict[str, list[tuple[str, range]]]:
    """Return, for `train` and for `test`, the names of the splits that it takes, each with the range of rows taken.

    Args:
        where: the place in the study that names the data set, for messages.
        splits: TFDS's information on each split, by name.

    Raises:
        InputError: `train` or `test` is not in TFDS's notation, names an unknown split or takes no example, or an
            example is taken twice.
    """
    chosen: dict[str, list[tuple[str, range]]] = {}
    seen: set[tuple[str, int]] = set()
    for part, split in (("train", source.train), ("test", source.test)):
        try:
            pieces = tfds.core.ReadInstruction.from_spec(split).to_absolute(splits)
        except (AssertionError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{where}.{part}: {source.name} has splits {', '.join(splits)}. {reason}") from None
        chosen[part] = [
            (piece.splitname, range(splits[piece.splitname].num_examples)[piece.from_ : piece.to]) for piece in pieces
        ]
        taken = [(split, row) for split, rows in chosen[part] for row in rows]
        if not taken:
            raise InputError(f"{where}.{part}: {split!r} has no example.")
        if len(set(taken)) < len(taken):  # one copy could be trained on, and the other held out
            raise InputError(f"{where}.{part}: {split!r} takes examples twice.")
        if not seen.isdisjoint(taken):
            raise InputError(f"{where}: {source.train!r} and {source.test!r} share examples.")
        seen.update(taken)
    return chosen


def cut(where: str, source: DatasetSource, parts: dict[str, Examples]) -> dict[str, Examples]:
    """Return the examples that `source.train` and `source.test` take from the whole splits `train` and `test`.

    Args:
        where: the place in the study that names the data set, for messages.
        parts: the examples of each whole split, by name.

    Raises:
        InputError: as in `chosen_rows`.
    """
    splits = {
        part: tfds.core.SplitInfo(name=part, shard_lengths=[len(labels)], num_bytes=0)
        for part, (_, labels) in parts.items()
    }
    return {
        part: Examples(
            np.concatenate([parts[of].images[rows.start : rows.stop] for of, rows in chosen]),
            np.concatenate([parts[of].labels[rows.start : rows.stop] for of, rows in chosen]),
        )
        for part, chosen in chosen_rows(where, source, splits).items()
    }
