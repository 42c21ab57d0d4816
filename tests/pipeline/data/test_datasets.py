import numpy as np
import pytest

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
    with pytest.raises(
        InputError, match=r"split: num_train_examples and .* add up to 65; mnist has 60 training examples\."
    ):
        datasets.load_dataset("mnist", SPLIT.model_copy(update={"num_train_examples": 55}), workspace / "data")


@pytest.mark.parametrize(
    ("name", "damage"),
    [("train_images.npy", "missing"), ("test_labels.npy", "truncated"), ("dataset.json", "missing")],
)
def test_damage_is_named_with_the_command_that_rebuilds(workspace, name, damage):
    path = workspace / "data" / "mnist" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError) as caught:
        datasets.load_dataset("mnist", SPLIT, workspace / "data")
    assert "mnist" in str(caught.value)
    assert "dvc repro download@mnist" in str(caught.value)


def test_a_flipped_bit_is_found(workspace):
    path = workspace / "data" / "mnist" / "test_images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"test_images\.npy has changed since it was prepared"):
        datasets.load_dataset("mnist", SPLIT, workspace / "data")
