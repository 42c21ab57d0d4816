"""Data sets as TFDS keeps them, in all shapes a user may have: written to arrays, or refused with the reason."""

import json

import numpy as np
import pytest
import tensorflow_datasets as tfds
from conftest import REPOSITORY

from pipeline.data import datasets
from pipeline.data.preparation import prepare
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.study.benchmark import Split
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import Study

GREY = tfds.features.Image(shape=(6, 6, 1))
TWO = tfds.features.ClassLabel(names=["cat", "dog"])
BUILDER = '''
import numpy as np
import tensorflow_datasets as tfds

class Spots(tfds.core.GeneratorBasedBuilder):
    """Noise in two classes."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"image": tfds.features.Image(shape=(6, 6, 3)), "label": tfds.features.ClassLabel(names=["a", "b"])}
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(50)}

    def _generate_examples(self, count):
        rng = np.random.default_rng(0)
        for index in range(count):
            yield index, {"image": rng.integers(0, 256, (6, 6, 3), np.uint8), "label": index % 2}
'''


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Writes a data set `own` under TFDS_DATA_DIR: 12 training and 4 test examples."""
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path / "tfds"))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))

    def write(image, label, values, names=("image", "label")):
        num_classes = getattr(label, "num_classes", 1)

        def examples(count):
            rng = np.random.default_rng(count)
            return [(n, {names[0]: values(rng, n), names[1]: n % num_classes}) for n in range(count)]

        tfds.dataset_builders.store_as_tfds_dataset(
            name="own",
            version="1.0.0",
            data_dir=tmp_path / "tfds",
            features=tfds.features.FeaturesDict({names[0]: image, names[1]: label}),
            split_datasets={"train": examples(12), "test": examples(4)},
        )
        return tmp_path / "data"

    return write


def grey(rng, _):
    return rng.integers(0, 256, (6, 6, 1), np.uint8)


def ragged(rng, index):
    return rng.integers(0, 256, (6, 6 + index % 3, 3), np.uint8)


def floats(scale):
    return lambda rng, _: (scale * rng.random((6, 6, 1))).astype(np.float32)


def as_tfds_has_them(field: str) -> np.ndarray:
    return np.stack([example[field] for example in tfds.as_numpy(tfds.builder("own").as_dataset(split="train"))])


def own(**changes) -> DatasetSource:
    return DatasetSource(tfds="own", **changes)


def refusal(root, source: DatasetSource) -> str:
    with pytest.raises(InputError) as caught:
        prepare("mine", source, root)
    assert not (root / "mine").exists()
    return str(caught.value)


def test_without_a_network_the_error_says_what_to_copy_where(tmp_path, monkeypatch):
    """A folder that is not writable fails in TFDS at once, as a missing route does after its retries."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path / "file" / "data"))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "file" / "data"))
    said = refusal(tmp_path, DatasetSource(tfds="fashion_mnist"))
    assert "copy ~/tensorflow_datasets/fashion_mnist" in said
    assert said.splitlines()[-1].startswith("and set TFDS_DATA_DIR")


def test_a_data_set_unknown_to_tfds_is_refused_with_a_suggestion(tmp_path):
    said = refusal(tmp_path, DatasetSource(tfds="fashion_mnits"))
    assert said.startswith("TFDS has no data set 'fashion_mnits', and TFDS_DATA_DIR is no folder that holds one. ")
    assert "Did you mean fashion_mnist? " in said


def test_images_and_splits_are_the_same_as_in_tfds(store, monkeypatch):
    root = store(GREY, TWO, grey)
    prepare("mine", own(train="train[:75%]", test="train[75%:]"), root)
    parts = {name: np.load(root / "mine" / f"{name}.npy") for name in datasets.ARRAYS}
    assert np.array_equal(np.concatenate([parts["train_images"], parts["test_images"]]), as_tfds_has_them("image"))
    assert np.array_equal(np.concatenate([parts["train_labels"], parts["test_labels"]]), as_tfds_has_them("label"))
    description = json.loads((root / "mine" / "dataset.json").read_text())
    assert (description["num_train_examples"], description["num_test_examples"]) == (9, 3)
    monkeypatch.chdir(root.parent)
    assert datasets.load_dataset("mine", Split(num_train_examples=7, num_validation_examples=2)).num_classes == 2


def test_images_of_several_sizes_are_refused_without_an_image_size(store):
    root = store(tfds.features.Image(shape=(None, None, 3)), TWO, ragged)
    assert "datasets.mine: images may have several sizes. Give image_size" in refusal(root, own())
    prepare("mine", own(image_size=5), root)
    images = np.load(root / "mine" / "train_images.npy")
    assert (images.shape, images.dtype) == ((12, 5, 5, 3), np.uint8)


FLOAT = tfds.features.Tensor(shape=(6, 6, 1), dtype=np.float32)


def test_float_images_become_bytes(store):
    root = store(FLOAT, TWO, floats(1.0))
    prepare("mine", own(), root)
    expected = np.rint(as_tfds_has_them("image") * 255)
    assert np.array_equal(np.load(root / "mine" / "train_images.npy"), expected)


@pytest.mark.parametrize(
    ("image", "label", "values", "message"),
    [
        (FLOAT, TWO, floats(255.0), "datasets.mine.train: float images must lie in [0, 1]. Received: 0."),
        (
            tfds.features.Image(shape=(6, 6, 1), dtype=np.uint16),
            TWO,
            lambda rng, _: rng.integers(0, 999, (6, 6, 1), np.uint16),
            "image must be uint8, or a float in [0, 1]. Received: uint16",
        ),
        (
            tfds.features.Tensor(shape=(36,), dtype=np.uint8),
            TWO,
            lambda rng, _: rng.integers(0, 256, 36, np.uint8),
            "image must be an image of height, width and channels.",
        ),
        (GREY, tfds.features.Scalar(dtype=np.int64), grey, "label must be a ClassLabel"),
    ],
)
def test_unsuitable_images_and_labels_are_refused(store, image, label, values, message):
    assert message in refusal(store(image, label, values), own())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": "validation"}, "datasets.mine.test: own has splits train, test. Unknown split 'validation'"),
        ({"test": "train[50%:]"}, "datasets.mine: 'train' and 'train[50%:]' share examples."),
        ({"train": "train[:8]+train[6:]"}, "datasets.mine.train: 'train[:8]+train[6:]' takes examples twice."),
        ({"test": "test[:0]"}, "datasets.mine.test: 'test[:0]' has no example."),
        ({"image": "image", "label": "kind"}, "datasets.mine.label: must be one of image, label. Received: 'kind'"),
    ],
)
def test_invalid_splits_and_features_are_refused(store, changes, message):
    assert message in refusal(store(GREY, TWO, grey), own(**changes))


def test_features_must_be_named_if_tfds_does_not_say_which_is_which(store):
    root = store(GREY, TWO, grey, ("picture", "kind"))
    message = "own does not say which feature is the image and which the label. Name both, of kind, picture."
    assert message in refusal(root, own())
    assert (prepare("mine", own(image="picture", label="kind"), root) / "test_images.npy").exists()


def builder_of_ones_own(folder, name: str, text: str) -> DatasetSource:
    module = folder / f"{name}_builder.py"
    module.write_text(text)
    return DatasetSource(tfds=name, module=module.stem, source=str(module), train="train[:40]", test="train[40:]")


@pytest.mark.usefixtures("store")
def test_a_custom_builder_is_registered_by_importing_its_module(tmp_path):
    folder = prepare("mine", builder_of_ones_own(tmp_path, "spots", BUILDER), tmp_path / "data")
    assert json.loads((folder / "dataset.json").read_text())["name"] == "spots/1.0.0"
    assert np.load(folder / "train_images.npy").shape == (40, 6, 6, 3)


@pytest.mark.usefixtures("store")
def test_the_error_names_a_builder_that_fails(tmp_path):
    faulty = BUILDER.replace("Spots", "Stains").replace("index % 2", "index % 5")
    said = refusal(tmp_path / "data", builder_of_ones_own(tmp_path, "stains", faulty))
    first, second, third, last = said.split("\n")
    assert (first, second) == ("Data set 'stains' could not be fetched:", "  Failed to encode example:")
    assert third.endswith("Class label 2 greater than configured num_classes 2")
    assert last.startswith("Its builder is in stains_builder, which ")


@pytest.mark.usefixtures("store")
def test_examples_without_a_label_are_refused(tmp_path):
    """TFDS stores -1. NumPy would take it for the last class, and an engine would fail or compute a NaN."""
    secret = BUILDER.replace("Spots", "Secret").replace("index % 2", "index % 2 if index < 43 else -1")
    said = refusal(tmp_path / "data", builder_of_ones_own(tmp_path, "secret", secret))
    assert said == "datasets.mine.train: 5 of 40 examples have no label. Use another split."


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "datasets.mine: must name either bundled or tfds."),
        ({"bundled": "mnist", "image": "a", "label": "b"}, "datasets.mine: with bundled, only train and test"),
        ({"tfds": "../mnist"}, "datasets.mine.tfds: String should match pattern"),
        ({"tfds": "mnist", "module": "spots"}, "datasets.mine: give both module and source, or neither."),
        ({"tfds": "mnist", "test": "train"}, "datasets.mine: train and test are the same, 'train'."),
    ],
)
def test_an_invalid_data_source_is_refused_when_the_study_is_validated(values, message):
    with pytest.raises(InputError) as caught:
        validate(Study, yaml_files.load(REPOSITORY / "params.yaml") | {"datasets": {"mine": values}}, "params.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["mnist:3.0.1", "mnist_corrupted/shot_noise", "cifar10_1/v4:1.1.0"])
def test_data_set_names_may_include_a_configuration_and_a_version(name):
    assert validate(DatasetSource, {"tfds": name}, "params.yaml").tfds == name


@pytest.mark.parametrize(("scale", "is_refused"), [(1 / 65535, True), (1 / 1100, False)])
def test_float_images_that_would_lose_too_much_as_bytes_are_refused(store, scale, is_refused):
    """A twelve-bit CT image, stored in 16 bits and scaled by the largest 16-bit number, would become a constant."""
    image = tfds.features.Tensor(shape=(6, 6, 1), dtype=np.float32)
    root = store(image, TWO, lambda rng, _: (rng.integers(1000, 1100, (6, 6, 1)) * scale).astype(np.float32))
    source = DatasetSource(tfds="own")
    if not is_refused:
        assert prepare("own", source, root).exists()
        return
    with pytest.raises(InputError, match=r"datasets\.own\.train: images become bytes, which would round away too much"):
        prepare("own", source, root)
    assert not root.exists()
