"""Build a model with a function that the user wrote."""

import contextlib
import difflib
import itertools
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np

from pipeline import engine
from pipeline.errors import InputError
from pipeline.study import user_code
from pipeline.study.benchmark import Imported

# Keras's global settings, which keras.config.set_<name> changes for the rest of the process.
SETTINGS = ("dtype_policy", "epsilon", "floatx", "image_data_format")
MIN_SCALE = 0.1  # of a model's first layer: a smaller scale is meant for images in [0, 255]
# Methods that a subclass of keras.Model may override. A run would ignore the overrides and use Keras's own methods.
STEPS = ("call", "compute_loss", "compute_metrics", "test_step", "train_step")
REBUILD = """
    def follow(layer):
        return type(layer).from_config({key: value for key, value in layer.get_config().items() if key != "dtype"})
    network = keras.models.clone_model(loaded, clone_function=follow)"""


@dataclass(frozen=True)
class ModelSpec:
    """Tell a user's function `build(spec)` which model to build.

    `build` returns a functional or Sequential `keras.Model` from float32 images (N, *image_shape) in [0, 1] to float32
    probabilities (N, num_classes). The layers follow Keras's global dtype policy, which is the variant's policy while
    `build` runs. Only the last layer sets `dtype="float32"`. Keras's random state is seeded before the call.

    Attributes:
        image_shape: height and width in pixels, and the number of channels.
        num_classes: the number of classes in the data set.
        seed: the run's seed.
        arguments: the study's `model.arguments`.
    """

    image_shape: tuple[int, int, int]
    num_classes: int
    seed: int
    arguments: Mapping[str, Any]


def build(model: Imported, spec: ModelSpec) -> keras.Model:
    """Return the model that the user's function builds for `spec`.

    Raises:
        InputError: the function can't be imported or fails, changes Keras's settings, or uses another seed; or the
            model that the function returns does not fit `spec` or ignores the policy.
    """
    with _unchanged_settings(model.name), _own_seed(model.name, spec.seed):
        module = user_code.load_module(model.module, Path(model.source))
        function = getattr(module, model.function, None)
        if not callable(function):
            near = difflib.get_close_matches(model.function, dir(module), n=1, cutoff=0.0)
            where = model.name.partition(":")[0]
            raise InputError(f"{where} has no function {model.function}. Did you mean {' or '.join(near)}?")
        try:
            network = function(spec)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            if engine.is_out_of_memory(error):  # lack of memory is an outcome, not an error
                raise
            raise InputError(f"{model.name} failed for {spec}: {user_code.in_words(error)}") from error
    _check(model.name, network, spec)
    _check_follows(model.name, network, keras.config.dtype_policy())
    for layer in network._flatten_layers():
        if model.batch_norm_momentum and isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = model.batch_norm_momentum
    return keras.Model(network.inputs, network.outputs, name=network.name)  # a Sequential becomes functional


@contextlib.contextmanager
def _unchanged_settings(name: str) -> Iterator[None]:
    """Undo the changes that the block makes to `SETTINGS`, and raise an `InputError` if there are any."""
    before = {setting: getattr(keras.config, setting)() for setting in SETTINGS}
    yield
    changed = {setting: now for setting in SETTINGS if (now := getattr(keras.config, setting)()) != before[setting]}
    for setting in changed:
        getattr(keras.config, f"set_{setting}")(before[setting])
    for setting, value in changed.items():
        value = getattr(value, "name", value)
        raise InputError(
            f"{name} calls keras.config.set_{setting}({value!r}), which would hold for float32 and for every other "
            "variant alike. Remove the call: the study sets the policy, and all else stays as Keras has it."
        )


@contextlib.contextmanager
def _own_seed(name: str, seed: int) -> Iterator[None]:
    """Raise an `InputError` if the block seeds random numbers with a number other than the run's `seed`.

    All runs would otherwise start alike.
    """
    with contextlib.ExitStack() as stack:
        watched = {
            call: stack.enter_context(mock.patch.object(module, function, wraps=getattr(module, function)))
            for call, module, function in _seeding_functions()
        }
        yield
    for call, watch in watched.items():
        for arguments, options in watch.call_args_list:
            if (given := [*arguments, *options.values()][:1]) and given[0] not in (None, seed):
                raise InputError(
                    f"{name} calls {call}({given[0]!r}), so all seeds would start from the same weights. Remove the "
                    "call: random numbers are seeded with spec.seed before your function is called."
                )


def _seeding_functions() -> Iterator[tuple[str, Any, str]]:
    yield "keras.utils.set_random_seed", keras.utils, "set_random_seed"  # which calls the others
    yield "random.seed", random, "seed"
    yield "numpy.random.seed", np.random, "seed"
    if "tensorflow" in sys.modules:
        yield "tensorflow.random.set_seed", sys.modules["tensorflow"].random, "set_seed"


def _check(name: str, network: Any, spec: ModelSpec) -> None:
    if not isinstance(network, keras.Model):
        raise InputError(f"{name} must return a keras.Model. Received: {type(network).__name__}")
    if not isinstance(network, keras.Sequential | keras.src.models.functional.Functional) or not network.built:
        raise InputError(
            f"{name} must return a functional or Sequential model with a keras.Input. "
            f"Received: {type(network).__name__}, whose shapes are unknown"
        )
    classes = itertools.takewhile(lambda kind: not kind.__module__.startswith("keras."), type(network).__mro__)
    if own := sorted({step for kind in classes for step in STEPS if step in vars(kind)}):
        raise InputError(
            f"{name} returns {type(network).__name__}, which defines its own {' and '.join(own)}. Runs train with "
            "Keras's own steps, which would ignore it. Return a plain keras.Model"
        )
    if network.compiled:
        raise InputError(
            f"{name} returns a compiled model. Runs compile it with the study's optimizer and with cross-entropy, and "
            "so drop its own optimizer and loss. Return the model without calling compile; load_model takes "
            "compile=False"
        )
    if (num_images := network.inputs[0].shape[0]) is not None:
        raise InputError(
            f"{name} must take any number of images, because training, validation and tests have batches of their own: "
            f"make its input by keras.Input(spec.image_shape). Received: batches of {num_images} alone"
        )
    first = network.inputs[0]
    if not str(first.dtype).startswith(("float", "bfloat")):
        raise InputError(f"{name} must take images as floats in [0, 1]. Received: an input in {first.dtype}")
    for layer in network.layers:
        if isinstance(layer, keras.layers.Rescaling) and layer.input is first and np.max(layer.scale) < MIN_SCALE:
            raise InputError(
                f"{name}: its layer {layer.name} divides images by {1 / np.max(layer.scale):g}, but they are in [0, 1] "
                "already. Remove the layer, or multiply by 255 before it"
            )
    for what, tensors, shape in (
        ("take one input, images", network.inputs, spec.image_shape),
        ("return one output, probabilities", network.outputs, (spec.num_classes,)),
    ):
        found = [tuple(tensor.shape) for tensor in tensors]
        if len(found) != 1 or len(found[0]) != 1 + len(shape) or not _fits(found[0][1:], shape):
            received = ", ".join(f"{tensor.name} {tuple(tensor.shape)}" for tensor in tensors)
            raise InputError(f"{name} must {what} of shape {(None, *shape)}. Received: {received}")
    dtype = network.outputs[0].dtype
    if dtype != "float32":
        raise InputError(f'{name} must return float32: give its last layer dtype="float32". Received: {dtype}')


def _check_follows(name: str, network: keras.Model, policy: keras.DTypePolicy) -> None:
    """Raise an `InputError` if most of the network's weights are in layers that ignore `policy`'s compute dtype.

    The last layer with weights does not count.
    """
    layers = [layer for layer in network._flatten_layers() if layer.weights and not list(layer._flatten_layers())[1:]]
    others = [layer for layer in layers[:-1] if layer.compute_dtype != policy.compute_dtype]
    if 2 * sum(layer.count_params() for layer in others) > sum(layer.count_params() for layer in layers[:-1]):
        raise InputError(
            f"{name}: {len(others)} of {len(layers)} layers with weights, such as {others[0].name}, compute in "
            f"{others[0].compute_dtype} under {policy.name}. Give a dtype to no layer except the last. A "
            f"loaded model keeps the policy that it was saved with. Build it again under the current policy:{REBUILD}"
        )


def _fits(found: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return all(size in (None, wanted) for size, wanted in zip(found, shape, strict=True))
