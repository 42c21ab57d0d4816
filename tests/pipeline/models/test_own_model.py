"""Models that the project does not have: functions of the user's, and Keras's own networks."""

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import benchmark, make_run, small_study

from pipeline import engine  # noqa: F401  first: it silences the engine before Keras imports it

# isort: split
import keras

from pipeline.comparison.finished_runs import read_record
from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import RunKey
from pipeline.training import building
from pipeline.training.evaluation import predict

MODELS = """
import pathlib

import keras
import numpy as np
from keras import layers

def dense(spec, num_classes=None, dtype="float32", activation="softmax"):
    images = keras.Input(spec.image_shape)
    x = layers.Dense(spec.arguments.get("units", 4), activation="relu")(layers.Flatten()(images))
    return keras.Model(images, layers.Dense(num_classes or spec.num_classes, activation=activation, dtype=dtype)(x))

def build(spec): return dense(spec)

def sequential(spec):
    head = layers.Dense(spec.num_classes, activation="softmax", dtype="float32")
    hidden = [layers.Flatten(), layers.Dropout(0.5), layers.Dense(8)]
    return keras.Sequential([keras.Input(spec.image_shape), *hidden, head])

def transformer(spec):
    # Calls a layer twice, has one with two outputs, and a model in place of a layer.
    height, width, channels = spec.image_shape
    images = keras.Input(spec.image_shape)
    x = layers.Reshape((height, width * channels))(images)
    twice = layers.Dense(width * channels)
    x = twice(twice(x))
    attended, _ = layers.MultiHeadAttention(2, 4)(x, x, return_attention_scores=True)
    x = layers.LayerNormalization()(x + attended)
    head = keras.Sequential([keras.Input(x.shape[1:]), layers.Dense(8, activation="relu"), layers.Flatten()])
    return keras.Model(images, layers.Dense(spec.num_classes, activation="softmax", dtype="float32")(head(x)))

class Subclass(keras.Model):
    def call(self, images):
        return images

class Uphill(keras.Model):
    def train_step(self, data): ...
    def compute_loss(self, *arguments, **options): ...

class Further(Uphill): ...

def own_steps(spec):
    plain = dense(spec)
    return Further(plain.inputs, plain.outputs)

def of_file(spec):
    # A model has the policy that it was saved with, also where only its head is built anew.
    path = spec.arguments["path"]
    if not pathlib.Path(path).exists():
        policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy("float32")
        dense(spec).save(path)
        keras.config.set_dtype_policy(policy)
    return keras.models.load_model(path)

def new_head(spec):
    body = of_file(spec)
    head = layers.Dense(spec.num_classes, activation="softmax", dtype="float32", name="head")
    return keras.Model(body.inputs, head(body.layers[-2].output))

def built_again(spec):
    loaded = of_file(spec)
    def follow(layer):
        return type(layer).from_config({key: value for key, value in layer.get_config().items() if key != "dtype"})
    body = keras.models.clone_model(loaded, clone_function=follow)
    head = layers.Dense(spec.num_classes, activation="softmax", dtype="float32", name="head")
    return keras.Model(body.inputs, head(body.layers[-2].output))

def nothing(spec): return None
def broken(spec): return 1 / 0
def three_classes(spec): return dense(spec, 3)
def half(spec): return dense(spec, dtype=None)
def subclassed(spec): return Subclass()
def logits(spec): return dense(spec, activation=None)
def two_inputs(spec):
    left, right = (keras.Input(spec.image_shape, name=name) for name in ("left", "right"))
    flat = keras.layers.Flatten()(keras.layers.Add()([left, right]))
    return keras.Model([left, right], keras.layers.Dense(spec.num_classes, "softmax", dtype="float32")(flat))


def fixed_batch(spec):
    images = keras.Input(batch_shape=(64, *spec.image_shape))
    return keras.Model(images, layers.Dense(spec.num_classes, "softmax", dtype="float32")(layers.Flatten()(images)))

def compiled(spec):
    model = dense(spec)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(ignore_class=0))
    return model

def exits(spec): raise SystemExit(3)

def in_bytes(spec):
    images = keras.Input(spec.image_shape, dtype="uint8")
    return keras.Model(images, layers.Dense(spec.num_classes, "softmax", dtype="float32")(layers.Flatten()(images)))

def rescaled(spec):
    head = layers.Dense(spec.num_classes, "softmax", dtype="float32")
    scaled = layers.Rescaling(1 / 255, name="to_unit")
    return keras.Sequential([keras.Input(spec.image_shape), scaled, layers.Flatten(), head])

def scaled_up_first(spec):
    images = keras.Input(spec.image_shape)
    x = layers.Dense(8)(layers.Flatten()(layers.Rescaling(1 / 127.5, offset=-1)(255 * images)))
    return keras.Model(images, layers.Dense(spec.num_classes, "softmax", dtype="float32")(x))

def sets(spec):
    for setting, value in spec.arguments.items():
        getattr(keras.config, "set_" + setting)(value)
    return dense(spec)

def seeded(spec):
    keras.utils.set_random_seed(42)
    return dense(spec)

def seeded_by_numpy(spec):
    np.random.seed(42)
    return dense(spec)

def seeded_by_spec(spec):
    keras.utils.set_random_seed(spec.seed)
    return dense(spec)

def frozen(spec):
    inside = keras.Input(spec.image_shape)
    base = keras.Model(inside, layers.Dense(6, activation="relu")(layers.Flatten()(inside)))
    base.trainable = False
    images = keras.Input(spec.image_shape)
    x = base(images, training=False)
    return keras.Model(images, layers.Dense(spec.num_classes, activation="softmax", dtype="float32")(x))
"""


@pytest.fixture
def own(tmp_path_factory):
    """A package outside the project, under a name that no other test imported; returns what a benchmark says of it."""
    folder = tmp_path_factory.mktemp("outside")
    package = folder / f"own_{folder.name}"
    package.mkdir()
    (package / "networks.py").write_text(MODELS)
    path = sys.path.copy()
    yield lambda function, **arguments: {
        "name": f"{package.name}.networks:{function}",
        "source": str(package),
        "arguments": arguments,
    }
    sys.path[:] = path


def build(model, policy="mixed_bfloat16", seed=0, float32_layers=(), **changes):
    recipe = Benchmark.model_validate(benchmark(units=8, model=model, **changes))
    return building.build_model(
        recipe, policy, num_classes=10, num_channels=1, seed=seed, float32_layers=float32_layers
    )


def application(name):
    return {"name": f"keras.applications:{name}", "source": "pipeline/models/application.py"}


def train_own(model, workspace, float32_layers=(), **changes):
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}}
    variants["mixed"] = {"policy": "mixed_bfloat16", "batch_multiplier": 1, "float32_layers": [*float32_layers]}
    study = small_study({"model": model} | changes, variants=variants)
    return make_run(workspace, study, RunKey("wide", "mixed", 0))


@pytest.mark.parametrize("function", ["sequential", "frozen", "seeded_by_spec", "scaled_up_first"])
def test_a_model_from_a_users_function_is_trained(own, workspace, function):
    record = train_own(own(function), workspace, num_epochs=1)
    assert record.outcome == "completed"
    assert record.compute_dtype == "bfloat16+float32"
    assert read_record(record.key, workspace) == record


def test_chosen_layers_compute_in_float32_with_everything_inside_them(own, workspace):
    chosen = ["MultiHeadAttention", "sequential"]
    model, digest = build(own("transformer"), float32_layers=chosen)
    assert digest == build(own("transformer"))[1]
    computes = {layer.name: layer.compute_dtype for layer in model._flatten_layers() if layer.weights}
    kept = [name for name, dtype in computes.items() if dtype == "float32"]
    assert {"query", "attention_output", "multi_head_attention"} <= {name.rstrip("_0123456789") for name in kept}
    assert computes[next(name for name in computes if name.startswith("layer_normalization"))] == "bfloat16"
    inner = next(layer for layer in model._flatten_layers() if layer.name.startswith("sequential"))
    assert {part.compute_dtype for part in inner._flatten_layers()} == {"float32"}
    record = train_own(own("transformer"), workspace, chosen[:1], num_epochs=1)
    assert (record.outcome, record.planned.float32_layers) == ("completed", ["MultiHeadAttention"])
    assert read_record(record.key, workspace) == record


def test_all_layers_in_float32_give_the_same_results_as_the_float32_policy(own):
    found = []
    for policy, kept in (("float32", []), ("mixed_bfloat16", ["Functional"]), ("mixed_bfloat16", [])):
        model, _ = build(own("transformer"), policy, seed=1, float32_layers=kept)
        found.append(model.predict(np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1), verbose=0))
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()


def test_an_unknown_layer_is_refused_with_a_list_of_the_models_layers(own):
    with pytest.raises(InputError, match=r"no layer or kind of layer Dens. Its kinds are Dense, "):
        build(own("transformer"), float32_layers=["Dens"])


def test_a_model_gets_the_studys_arguments_and_its_weights_depend_only_on_the_seed(own):
    model, _ = build(own("build", units=7))
    assert model.count_params() == 64 * 7 + 7 + 7 * 10 + 10
    digests = {build(own("transformer"), policy, seed=3)[1] for policy in ("float32", "mixed_float16", "bfloat16")}
    assert len(digests) == 1
    assert build(own("transformer"), seed=4)[1] not in digests


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("nothing", "must return a keras.Model. Received: NoneType"),
        ("broken", "ZeroDivisionError: division by zero"),
        ("three_classes", "must return one output, probabilities of shape (None, 10). Received: keras_tensor"),
        ("half", 'must return float32: give its last layer dtype="float32". Received: bfloat16'),
        ("two_inputs", "must take one input, images of shape (None, 8, 8, 1). Received: left (None, 8, 8, 1), right ("),
        ("own_steps", "returns Further, which defines its own compute_loss and train_step"),
        ("fixed_batch", "must take any number of images, because training, validation and tests have batches of their"),
        ("compiled", "returns a compiled model. Runs compile it with the study's optimizer and with cross-entropy"),
        ("exits", "it ends the process, with status 3"),
        ("in_bytes", "must take images as floats in [0, 1]. Received: an input in uint8"),
        ("rescaled", "its layer to_unit divides images by 255, but they are in [0, 1] already"),
        ("seeded", "calls keras.utils.set_random_seed(42), so all seeds would start from the same weights"),
        ("seeded_by_numpy", "calls numpy.random.seed(42), so all seeds would start from the same weights"),
        ("subclassed", "must return a functional or Sequential model with a keras.Input. Received: Subclass"),
    ],
)
def test_an_unsuitable_model_is_refused_when_it_is_built(own, function, message):
    before = np.random.seed
    with pytest.raises(InputError) as caught:
        build(own(function))
    assert message in str(caught.value)
    assert np.random.seed == before


SETTINGS = {"dtype_policy": "float32", "epsilon": 0.5, "floatx": "float16", "image_data_format": "channels_first"}


@pytest.mark.parametrize(("setting", "value"), SETTINGS.items())
def test_a_model_that_changes_a_setting_of_keras_is_refused_and_the_setting_restored(own, setting, value):
    before = getattr(keras.config, setting)()
    with pytest.raises(InputError, match=rf"calls keras\.config\.set_{setting}\('?{value}'?\), which would hold for"):
        build(own("sets", **{setting: value}))
    assert getattr(keras.config, setting)() == before


def test_a_model_that_returns_no_probabilities_is_refused_before_training(own, workspace):
    with pytest.raises(InputError, match="wide must return probabilities that sum to 1: end it with a softmax in"):
        train_own(own("logits"), workspace)
    assert not list(workspace.glob("runs/**/record.json"))


@pytest.mark.parametrize("function", ["of_file", "new_head"])
def test_a_loaded_model_that_keeps_its_saved_policy_is_refused_with_code_that_rebuilds_it(own, tmp_path, function):
    path = str(tmp_path / "saved.keras")
    build(own(function, path=path), "float32")
    with pytest.raises(InputError, match=r"(?s)under mixed_float16\..*def follow.*clone_model"):
        build(own(function, path=path), "mixed_float16")
    model, _ = build(own("built_again", path=path), "mixed_float16")
    assert {each.compute_dtype for each in model._flatten_layers() if hasattr(each, "kernel")} == {"float16", "float32"}


def test_the_error_names_a_module_that_cannot_be_imported_and_the_reason(own, tmp_path):
    model = own("build") | {"name": "no_such_package.networks:build"}
    with pytest.raises(InputError, match=r"can't be imported from .*: ModuleNotFoundError: No module named 'no_such_"):
        build(model)
    with pytest.raises(InputError, match=r"nowhere does not exist\. `source` is the file or folder"):
        build(model | {"source": str(tmp_path / "nowhere")})


def test_a_module_outside_its_source_is_refused(own):
    """Changes to it would not train anything again."""
    with pytest.raises(InputError, match=r"textwrap is .*textwrap\.py, outside "):
        build(own("build") | {"name": "textwrap:dedent"})


def test_importing_a_model_writes_nothing_into_its_source(own):
    """Python's compiled files would count as a change of the folder."""
    model = own("build")
    build(model)
    assert [path.name for path in Path(model["source"]).rglob("*")] == ["networks.py"]


@pytest.mark.parametrize("name", ["EfficientNetB0", "MobileNetV3Small"])
def test_keras_applications_get_a_head_for_the_classes_of_the_data(name):
    model, _ = build(application(name), image_size=32)
    probabilities = predict(model, np.zeros((2, 8, 8, 1), np.uint8), batch_size=2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert model.outputs[0].dtype == "float32"
    scales = [layer.scale for layer in model.layers[-1].layers if type(layer).__name__ == "Rescaling"]
    assert scales[:2] == ([255.0, 1 / 255.0] if name == "EfficientNetB0" else [])  # its own would darken images again


def test_batch_norm_gets_the_momentum_of_the_study():
    model, _ = build(application("MobileNetV2") | {"batch_norm_momentum": 0.9}, image_size=32)
    norms = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
    assert {layer.momentum for layer in norms} == {0.9}


def test_an_unknown_keras_application_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match=r"keras\.applications has no function ResNet51\. Did you mean ResNet"):
        build(application("ResNet51"))
