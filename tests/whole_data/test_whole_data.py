"""The real MNIST and CIFAR-100, as TFDS has prepared them or as a host sends them, against the bundled images."""

import os

import numpy as np
import pytest

from pipeline.data import hosts, known
from pipeline.study.dataset_source import DatasetSource

NUM_QUICK = {"train": 30, "test": 20}  # images of each class of CIFAR-100


def is_prepared(name: str) -> bool:
    found = any(hosts.tfds_folder().glob(f"{name}/*/dataset_info.json"))
    if not (found or os.environ.get("CI")):
        pytest.skip(f"TFDS_DATA_DIR has no {name} that TFDS prepared, and nobody wants to wait for a host")
    return found


def test_the_bundled_mnist_equals_that_of_tfds():
    is_prepared("mnist")
    from pipeline.data.from_tfds import read_tfds

    parts = known.checked("mnist", read_tfds("mnist", DatasetSource(tfds="mnist"))[2])
    for part, bundled in known.read_bundled("mnist").items():
        assert all(map(np.array_equal, bundled, parts[part]))


def test_the_first_images_of_each_class_of_cifar100_are_bundled():
    prepared = is_prepared("cifar100")
    parts, came_from = hosts.fetch()
    assert (came_from == "TFDS") == prepared
    for part, (images, labels) in known.read_bundled("cifar100_quick").items():
        all_images, all_labels = parts[part]
        rows = np.sort(np.concatenate([np.flatnonzero(all_labels == n)[: NUM_QUICK[part]] for n in range(100)]))
        assert np.array_equal(images, all_images[rows])
        assert np.array_equal(labels, all_labels[rows])
