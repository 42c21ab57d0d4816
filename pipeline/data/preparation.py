"""Write data sets as arrays on disk, whatever they come from."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pipeline.data import hosts
from pipeline.data.bundled import read_bundled
from pipeline.data.datasets import DATA
from pipeline.data.from_tfds import cut, read_tfds
from pipeline.data.known import KNOWN, Part, class_names
from pipeline.errors import InputError
from pipeline.files.writing import whole
from pipeline.study.dataset_source import DatasetSource


def prepare(name: str, source: DatasetSource, root: Path = DATA) -> Path:
    """Write `root/name`: one array a file and `dataset.json`, all of it or nothing. Return the folder.

    Images are uint8 (N, H, W, C) and labels int64 (N,). Data sets whose content is known are in the order of their
    digests, the same from every source; others in that of TFDS without shuffling.

    Raises:
        InputError: the data set is faulty or can't be had; the text says how, or what to do.
    """
    where = f"datasets.{name}"
    known = source.bundled or (
        source.tfds if source.tfds in hosts.SOURCES and not (source.image or source.image_size) else None
    )
    batches: dict[str, Iterable[Part]]
    if known:
        parts, came_from = (read_bundled(known), "this repository") if source.bundled else hosts.fetch(known)
        selected = _selected(where, parts, source)
        counts = {part: len(labels) for part, (_, labels) in selected.items()}
        batches = {part: [examples] for part, examples in selected.items()}
        full_name, classes, content = known, class_names(known), KNOWN[known].content_sha256
    else:
        full_name, classes, counts, batches = read_tfds(name, source)
        came_from, content = "TFDS", None
    with whole(root / name) as partial:
        partial.mkdir()
        digests: dict[str, str] = {}
        shapes = [_write(partial, part, counts[part], batches[part], digests) for part in ("train", "test")]
        if len(found := np.unique(np.load(partial / "train_labels.npy"))) < 2:
            raise InputError(f"{where}.train: every example is of class {found[0]}; there must be two classes or more.")
        if shapes[0] != shapes[1]:
            raise InputError(f"{where}: images of {source.train} are {shapes[0]}, those of {source.test} {shapes[1]}.")
        description = {
            "name": full_name,
            "came_from": came_from,
            "content_sha256": content,  # of the whole data set, whatever the order of its examples
            "num_train_examples": counts["train"],
            "num_test_examples": counts["test"],
            "image_shape": list(shapes[0]),
            "classes": classes,
            "sha256": digests,
        }
        (partial / "dataset.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return root / name


def _selected(where: str, parts: dict[str, Part], source: DatasetSource) -> dict[str, Part]:
    """Return the examples that the splits `train` and `test` of the study name, and refuse splits that share any."""
    if (source.train, source.test) == ("train", "test"):
        return parts
    import tensorflow_datasets as tfds

    splits = {
        part: tfds.core.SplitInfo(name=part, shard_lengths=[len(labels)], num_bytes=0)
        for part, (_, labels) in parts.items()
    }
    return {
        part: (
            np.concatenate([parts[of][0][rows.start : rows.stop] for of, rows in chosen]),
            np.concatenate([parts[of][1][rows.start : rows.stop] for of, rows in chosen]),
        )
        for part, chosen in cut(where, source, splits).items()
    }


def _write(
    folder: Path, part: str, num_examples: int, batches: Iterable[Part], digests: dict[str, str]
) -> tuple[int, ...]:
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
        raise InputError(f"{folder.name}: {part} has {written} examples where {num_examples} are expected.")
    for array in arrays:
        array.flush()  # type: ignore[attr-defined]
    digests |= {name: digest.hexdigest() for name, digest in zip(names, found, strict=True)}
    return tuple(arrays[0].shape[1:])
