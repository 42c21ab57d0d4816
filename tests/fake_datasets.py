"""Fake data sets of TFDS with images of noise, for code that needs their shapes and no network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds


def write_fake_tfds(
    root: Path, names: Sequence[str] = ("fashion_mnist", "cifar10"), num_train: int = 60, num_test: int = 20
) -> None:
    """Write what TFDS finds when `TFDS_DATA_DIR` is `root`; `names` are of 28 or 32 pixels and ten classes."""
    rng = np.random.default_rng(0)
    for name in names:
        real = tfds.builder_cls(name)(data_dir=root)
        image = real.info.features["image"]
        classes = real.info.features["label"].num_classes

        def example(index: int, shape: tuple[int, ...] = image.shape, classes: int = classes, name: str = name) -> Any:
            extra = {"id": f"train_{index}"} if name == "cifar10" else {}
            return index, {"image": rng.integers(0, 256, shape, np.uint8), "label": index % classes} | extra

        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            version=str(real.version),
            data_dir=root,
            features=real.info.features,
            split_datasets={
                split: [example(index) for index in range(count)]
                for split, count in (("train", num_train), ("test", num_test))
            },
        )
