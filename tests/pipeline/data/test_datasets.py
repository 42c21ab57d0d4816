import numpy as np
import pytest

from pipeline.data import datasets
from pipeline.errors import InputError
from pipeline.study.benchmark import Split

SPLIT = Split(num_train_examples=40, num_validation_examples=10, shuffle_seed=7)


pytestmark = pytest.mark.usefixtures("workspace", "inside")


def test_training_examples_come_from_the_front_and_validation_examples_from_the_end(workspace):
    whole = np.load(workspace / "data" / "mnist" / "train_images.npy")
    plain = datasets.load_dataset("mnist", SPLIT.model_copy(update={"shuffle_seed": None}))
    assert np.array_equal(plain.train.images, whole[:40])
    assert np.array_equal(plain.validation.images, whole[50:])


def test_a_shuffled_split_is_repeatable_and_does_not_overlap():
    first, again = (datasets.load_dataset("mnist", SPLIT) for _ in range(2))
    other = datasets.load_dataset("mnist", SPLIT.model_copy(update={"shuffle_seed": 8}))
    assert np.array_equal(first.train.images, again.train.images)
    assert not np.array_equal(first.train.images, other.train.images)
    images = [image.tobytes() for part in (first.train, first.validation) for image in part.images]
    assert len(set(images)) == 50


@pytest.mark.parametrize(
    ("name", "damaged", "message"),
    [
        ("train_images.npy", lambda _: None, r"train_images\.npy is missing"),
        ("test_labels.npy", lambda content: content[: len(content) // 2], r"test_labels\.npy has changed since it was"),
        ("test_images.npy", lambda content: content[:-1] + b"\xff", r"test_images\.npy has changed since it was"),
        ("dataset.json", lambda _: None, r"dataset\.json is missing"),
    ],
)
def test_damaged_data_are_reported_with_the_command_that_rebuilds_them(workspace, name, damaged, message):
    path = workspace / "data" / "mnist" / name
    content = damaged(path.read_bytes())
    path.write_bytes(content) if content else path.unlink()
    with pytest.raises(InputError, match=rf"{message}.*dvc repro download@mnist"):
        datasets.load_dataset("mnist", SPLIT)


def test_a_split_larger_than_the_data_is_refused():
    with pytest.raises(
        InputError, match=r"split: num_train_examples and .* add up to 65; mnist has 60 training examples\."
    ):
        datasets.load_dataset("mnist", SPLIT.model_copy(update={"num_train_examples": 55}))
