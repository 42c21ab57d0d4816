"""Fake data sets of TFDS with images of noise, for code that needs their shapes and no network."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds


def write_fake_tfds(root: Path, name: str = "fashion_mnist", num_train: int = 60, num_test: int = 20) -> None:
    """Write what TFDS finds when `TFDS_DATA_DIR` is `root`; `name` is of a data set that TFDS knows."""
    rng = np.random.default_rng(0)
    real = tfds.builder_cls(name)(data_dir=root)
    features = real.info.features

    def example(index: int) -> tuple[int, dict[str, Any]]:
        image = rng.integers(0, 256, features["image"].shape, np.uint8)
        number = {"id": f"train_{index}"} if "id" in features else {}
        return index, {"image": image, "label": index % features["label"].num_classes} | number

    counts = {"train": num_train, "test": num_test}
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version=str(real.version),
        data_dir=root,
        features=features,
        split_datasets={split: [example(index) for index in range(count)] for split, count in counts.items()},
    )
