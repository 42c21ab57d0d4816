import hashlib
import json

import numpy as np
import pytest
from archives import DAMAGED_DATA

from pipeline.data import datasets
from pipeline.errors import InputError
from pipeline.study.benchmark import Split

SPLIT = Split(num_train_examples=40, num_validation_examples=10, shuffle_seed=7)


def test_split_takes_from_the_front_and_holds_out_from_behind(workspace):
    whole = np.load(workspace / "data" / "mnist" / "train_images.npy")
    plain = datasets.load_dataset("mnist", SPLIT.model_copy(update={"shuffle_seed": None}), workspace / "data")
    assert np.array_equal(plain.train.images, whole[:40])
    assert np.array_equal(plain.validation.images, whole[50:])


def test_shuffled_split_is_the_same_every_time_and_does_not_overlap(workspace):
    first, again = (datasets.load_dataset("mnist", SPLIT, workspace / "data") for _ in range(2))
    other = datasets.load_dataset("mnist", SPLIT.model_copy(update={"shuffle_seed": 8}), workspace / "data")
    assert np.array_equal(first.train.images, again.train.images)
    assert not np.array_equal(first.train.images, other.train.images)
    images = [image.tobytes() for part in (first.train, first.validation) for image in part.images]
    assert len(set(images)) == 50


def test_a_split_larger_than_the_data_is_refused(workspace):
    with pytest.raises(InputError, match="asks for 65 examples, and mnist has 60"):
        datasets.load_dataset("mnist", SPLIT.model_copy(update={"num_train_examples": 55}), workspace / "data")


@pytest.mark.parametrize("name", ["train_images.npy", "test_labels.npy", "dataset.json"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty"])
def test_damage_is_named_with_the_command_that_rebuilds(workspace, name, damage):
    path = workspace / "data" / "mnist" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    with pytest.raises(InputError) as caught:
        datasets.load_dataset("mnist", SPLIT, workspace / "data")
    assert "mnist" in str(caught.value)
    assert "dvc repro --force --single-item download@mnist" in str(caught.value)


@pytest.mark.parametrize("case", DAMAGED_DATA)
def test_a_hostile_data_set_is_refused(workspace, case):
    """Also where its description has the digests of what lies there."""
    name, edit = DAMAGED_DATA[case]
    folder = workspace / "data" / "mnist"
    (folder / name).write_bytes(edit((folder / name).read_bytes()))
    if name != "dataset.json":
        description = json.loads((folder / "dataset.json").read_text())
        with (folder / name).open("rb") as file:
            file.seek(128)  # where NumPy lets the numbers begin
            description["sha256"][name.removesuffix(".npy")] = hashlib.sha256(file.read()).hexdigest()
        (folder / "dataset.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=f"{name.split('.')[0]}|mnist is damaged") as caught:
        datasets.load_dataset("mnist", SPLIT, workspace / "data")
    assert str(caught.value).endswith("dvc repro --force --single-item download@mnist")


def test_a_flipped_bit_is_found(workspace):
    path = workspace / "data" / "mnist" / "test_images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"test_images\.npy is not the file that was prepared"):
        datasets.load_dataset("mnist", SPLIT, workspace / "data")


def test_what_does_not_fit_into_memory_is_read_from_disk_and_is_the_same(workspace):
    """60 + 20 images of 64 bytes, 40 + 10 + 20 of them taken."""
    memory, disk = (
        datasets.load_dataset("mnist", SPLIT, workspace / "data", max_bytes_in_memory=70 * 64 - on_disk)
        for on_disk in (0, 1)
    )
    for part in ("train", "validation", "test"):
        near, far = getattr(memory, part), getattr(disk, part)
        assert (near.in_memory, far.in_memory) == (True, False)
        assert np.array_equal(near.labels, far.labels)
        assert (near.images.shape, near.images.dtype, len(near.images)) == (
            far.images.shape,
            far.images.dtype,
            len(far.images),
        )
        rows = np.random.default_rng(1).integers(0, len(near.labels), 30)  # some twice
        assert np.array_equal(near.images[rows], far.images[rows])
        assert np.array_equal(near.images[3:8], far.images[3:8])
        assert isinstance(far.images[rows], np.ndarray)
        assert not isinstance(near.images, np.memmap)
    assert memory.sha256 == disk.sha256
    assert disk.num_channels == 1


def test_by_default_a_small_set_is_in_memory(workspace):
    assert datasets.load_dataset("mnist", SPLIT, workspace / "data").train.in_memory
