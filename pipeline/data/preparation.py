"""Write data sets from any source as arrays on disk."""

import hashlib
import json
from pathlib import Path

import numpy as np

from pipeline.data import hosts
from pipeline.data.datasets import DATA
from pipeline.data.known import KNOWN, class_names, read_bundled
from pipeline.files.writing import whole
from pipeline.study.dataset_source import DatasetSource


def prepare(name: str, source: DatasetSource, root: Path = DATA) -> Path:
    """Write the folder `root/name` completely or not at all, and return it.

    The folder gets a file for each array, and `dataset.json`. Images are uint8 (N, H, W, C) and labels int64 (N,).
    Examples of a data set in `KNOWN` are sorted by digest before they are cut, so that every source gives the same
    arrays. All other data sets keep TFDS's unshuffled order, and so do known ones if the study resizes the images or
    names their features.

    Raises:
        InputError: the data set is faulty or unavailable. The message says why, or what to do.
    """
    where = f"datasets.{name}"
    is_bundled = source.bundled or source.tfds == "mnist"  # all of MNIST comes with this repository
    is_known = (is_bundled or source.tfds == hosts.NAME) and not (source.image or source.image_size)
    if is_known:
        parts, came_from = (read_bundled(source.name), "this repository") if is_bundled else hosts.fetch()
        if (source.train, source.test) != ("train", "test"):
            from pipeline.data.from_tfds import cut  # imported only here, because it imports TensorFlow

            parts = cut(where, source, parts)
        full_name, classes = source.name, class_names(source.name)
    else:
        from pipeline.data.from_tfds import read_tfds

        full_name, classes, parts = read_tfds(where, source)
        came_from = "TFDS"
    arrays = {
        f"{part}_{kind}": np.ascontiguousarray(values)
        for part, examples in parts.items()
        for kind, values in examples._asdict().items()
    }
    description = {
        "name": full_name,
        "came_from": came_from,
        # A digest of each whole part, before the cut. The order of the examples does not change it.
        "content_sha256": KNOWN[source.name].content_sha256 if is_known else None,
        "num_train_examples": len(arrays["train_labels"]),
        "num_test_examples": len(arrays["test_labels"]),
        "image_shape": arrays["train_images"].shape[1:],
        "classes": classes,
        "sha256": {array: hashlib.sha256(values.data).hexdigest() for array, values in arrays.items()},
    }
    with whole(root / name) as partial:
        partial.mkdir()
        for array, values in arrays.items():
            np.save(partial / f"{array}.npy", values)
        (partial / "dataset.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return root / name
