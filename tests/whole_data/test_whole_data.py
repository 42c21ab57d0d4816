"""The real MNIST and CIFAR-100, as TFDS has prepared them or as a host sends them, against the bundled images."""

import json
import os

import numpy as np
import pytest

from pipeline.data import hosts, known
from pipeline.data.preparation import prepare
from pipeline.study.dataset_source import DatasetSource

CIFAR100_QUICK = {"train": 30, "test": 20}  # images of each class


@pytest.mark.parametrize("name", ["mnist", "cifar100"])
def test_whole_data_sets_hold_the_images_of_this_repository(tmp_path, name):
    prepared = any(hosts.tfds_folder().glob(f"{name}/*/dataset_info.json"))
    if not (prepared or os.environ.get("CI")):
        pytest.skip(f"TFDS_DATA_DIR has no {name} that TFDS prepared, and nobody wants to wait for a host")
    folder = prepare(name, DatasetSource(tfds=name), tmp_path)
    said = json.loads((folder / "dataset.json").read_text())
    assert (said["name"], said["content_sha256"]) == (name, known.KNOWN[name].content_sha256)
    assert (said["came_from"] == "TFDS") == prepared
    bundled = known.read_bundled("mnist" if name == "mnist" else "cifar100_quick")
    for part, (images, labels) in bundled.items():
        whole = np.load(folder / f"{part}_images.npy"), np.load(folder / f"{part}_labels.npy")
        rows = np.arange(len(whole[1]))
        if name == "cifar100":  # the first of each class
            rows = np.sort(np.concatenate([np.flatnonzero(whole[1] == n)[: CIFAR100_QUICK[part]] for n in range(100)]))
        assert np.array_equal(images, whole[0][rows])
        assert np.array_equal(labels, whole[1][rows])
