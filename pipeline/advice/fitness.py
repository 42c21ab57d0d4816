"""Build a model under each policy before any run: check the model, find layers that depart from the policy, time steps.

The argument `image_shape` is the (height, width, num_channels) of the data set's images, in pixels.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from pipeline import engine  # first: this import suppresses start-up messages of the engine that Keras then imports

# isort: split
import keras
import numpy as np

from pipeline.errors import InputError
from pipeline.study import user_code
from pipeline.study.benchmark import Benchmark, Imported
from pipeline.study.schema import Study
from pipeline.study.variant import Variant, expected_dtypes
from pipeline.training import building
from pipeline.training.divergence import watched
from pipeline.training.evaluation import predict
from pipeline.training.precision import check_model, observed_dtypes

PROJECT_FOLDERS = ("pipeline", "stages", "tests", ".venv")
NUM_STEPS = 4  # that `look` times under each policy
ODD_SEED = 2**31 - 19  # an unlikely choice, so that a user's code that sets its own seed is noticed


def check(study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int) -> None:
    """Check that the model of benchmark `name` can be built and trained under each policy of the benchmark's variants.

    The model predicts two random images, and a training step on these images is tried. A model that runs out of memory
    is not refused, because its runs will record that outcome.

    Raises:
        InputError: the model can't be built, called or trained; the model does not fit the images, the classes or a
            policy; the optimizer refuses the recipe's arguments; or the model reads a file next to its `source`.
    """
    benchmark = study.benchmarks[name]
    with user_code.files_read() as paths:
        for variant in _one_per_precision(study.variants_of(name).values()):
            with _outcome_or_refusal(name, variant):
                model = _build(benchmark, variant, image_shape[-1], num_classes)
                images = _check_predictions(model, name, benchmark, variant, image_shape)
                engine.try_step(model, images, np.zeros(len(images), np.int64))
    if isinstance(benchmark.model, Imported):
        _check_beside(name, Path(benchmark.model.source), paths)


def look(
    study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int
) -> dict[str, tuple[float, float]]:
    """Return two times in seconds for each policy.

    The first is the time to build the model and take one training step. The second is the time of the fastest of the
    other steps. The steps train on one batch of random images. If the steps of a policy do not fit into memory, the two
    times are 0. Also print which layers depart from a policy.

    Raises:
        InputError: the model can't be built, called or trained; the model does not fit the images, the classes or a
            policy; or the optimizer refuses the recipe's arguments.
    """
    benchmark = study.benchmarks[name]
    rng = np.random.default_rng(0)
    images = rng.random((benchmark.batch_size, *image_shape), np.float32)
    labels = rng.integers(0, num_classes, benchmark.batch_size)
    found: dict[str, tuple[float, float]] = {}
    for variant in _one_per_precision(study.variants.values()):
        times = [perf_counter()]
        with _outcome_or_refusal(name, variant):
            model = _build(benchmark, variant, image_shape[-1], num_classes)
            for _ in range(NUM_STEPS):
                model.train_on_batch(images, labels)  # waits for the device, because it returns the loss
                times.append(perf_counter())
            for sentence in examine(model, variant.policy):
                print(f"{variant.policy}: {sentence}", flush=True)
            _check_predictions(model, name, benchmark, variant, image_shape)
        seconds = [after - before for before, after in pairwise(times)]
        found[variant.policy] = (seconds[0], min(seconds[1:])) if len(seconds) == NUM_STEPS else (0.0, 0.0)
    return found


def costly_kinds(study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int) -> list[str]:
    """Return the kinds of layers with kernels, such as "Conv2D", and first the kind with the most multiply-adds."""
    model, _ = building.build_model(study.benchmarks[name], "float32", num_classes, image_shape[-1], ODD_SEED)
    counts: Counter[str] = Counter()

    def see(_: str, layer: keras.layers.Layer, outputs: Any) -> None:
        counts[type(layer).__name__] += multiply_adds(layer, keras.tree.flatten(outputs)[0].shape)

    with watched(model, see):
        model(np.zeros((1, *image_shape), np.uint8))
    return [kind for kind, count in counts.most_common() if count]


def multiply_adds(layer: keras.layers.Layer, output_shape: tuple[int, ...]) -> int:
    """Return how many products the kernels of `layer` add up for one image.

    Every weight of a kernel is used once at each position of the output (N, ..., channels). The channels of an
    `EinsumDense`, such as the heads and their dimensions, are those dimensions of the output that its kernel has.
    """
    kernels = [weight.shape for weight in layer.weights if "kernel" in weight.name and not list(layer._layers)]
    channels = output_shape[-1]
    if isinstance(layer, keras.layers.EinsumDense):
        _, letters, output = re.split(",|->", layer.equation)
        channels = math.prod(size for letter, size in zip(letters, kernels[0], strict=True) if letter in output)
    return sum(map(math.prod, kernels)) * (math.prod(output_shape[1:]) // channels)


def _one_per_precision(variants: Iterable[Variant]) -> Iterable[Variant]:
    return {variant.precision: variant for variant in variants}.values()


@contextmanager
def _outcome_or_refusal(name: str, variant: Variant) -> Iterator[None]:
    """Turn an error inside the block into an `InputError` that names the policy and, if Keras tells, the layer.

    An `InputError` from inside the block passes unchanged. Lack of memory is an outcome that runs record, so it only
    ends the block and prints a message.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever the layers and the engine raise
        if not engine.is_out_of_memory(error):
            reason = (str(error).strip().splitlines() or [""])[0]
            policy, float32_layers = variant.precision
            mixed = f" with {', '.join(float32_layers)} in float32" if float32_layers else ""
            where = re.search(r"received by (\S+?)\.call\(\)", str(error))
            raise InputError(
                f"{name}: Keras can't train this model under {policy}{mixed}: {f'in {where[1]}: ' if where else ''}"
                f"{type(error).__name__}: {reason}. Change the model, or leave the variants of {policy}{mixed} out"
            ) from error
        print(f"{name}: {variant.policy} does not fit into memory here; its runs will say so in their records")


def _build(benchmark: Benchmark, variant: Variant, num_channels: int, num_classes: int) -> keras.Model:
    """Return the benchmark's model under the variant's policy, compiled."""
    policy, float32_layers = variant.precision
    model, _ = building.build_model(benchmark, policy, num_classes, num_channels, ODD_SEED, float32_layers)
    building.compile_model(model, benchmark, variant)
    return model


def _check_predictions(
    model: keras.Model, name: str, benchmark: Benchmark, variant: Variant, image_shape: tuple[int, int, int]
) -> np.ndarray:
    """Let the model predict two random images, and return the images, uint8 (2, *image_shape).

    Raises:
        InputError: the model's dtypes are not those of the variant, or a user's model does not return probabilities.
    """
    images = np.random.default_rng(0).integers(0, 256, (2, *image_shape), np.uint8)
    probabilities = predict(model, images, batch_size=2)
    check_model(name, benchmark, variant, observed_dtypes(model, str(probabilities.dtype)), probabilities)
    return images


def _check_beside(name: str, source: Path, paths: Set[str]) -> None:
    """Refuse a model that reads files next to its `source`, because an edit of such a file would not retrain anything.

    Files of this project and of the Python installation are allowed.

    Args:
        paths: the paths of all files that were read.

    Raises:
        InputError: a file is in the folder that contains `source`, or below, but not in `source`.
    """
    source = source.resolve()
    known = [Path(part).resolve() for part in (source, *PROJECT_FOLDERS, sys.prefix, sys.base_prefix)]
    beside = sorted(
        str(file.relative_to(source.parent))
        for file in map(Path, paths)
        if file.is_relative_to(source.parent)
        and file.is_file()
        and not any(file.is_relative_to(folder) for folder in known)
    )
    if beside:
        raise InputError(
            f"{name}: the model reads {', '.join(beside)}, which is next to {source.name} but not in `source`, so an "
            "edit there would not retrain anything. Put all files into one folder, and name that folder as `source`."
        )


def examine(model: keras.Model, policy: str) -> Iterator[str]:
    """Yield a sentence, with a remedy, for each wrong dtype in which layers of `model` compute.

    A layer with a kernel must compute in the dtype of `policy`. The last layer with a kernel may compute in any dtype,
    because models often keep their last layer in float32.
    """
    compute = expected_dtypes(policy).compute
    kernels = [layer for layer in dict.fromkeys(_inside(model)) if getattr(layer, "kernel", None) is not None]
    found: dict[str, list[str]] = {}
    for layer in kernels[:-1]:
        if layer.compute_dtype != compute:
            found.setdefault(layer.compute_dtype, []).append(layer.name)
    for dtype, names in found.items():
        yield (
            f"{', '.join(names)}: computes in {dtype}, whatever the policy. Leave dtype out, unless it is meant: each "
            "such layer costs two casts and runs at the speed of its type."
        )


def _inside(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """Yield all layers inside `layer`, nested ones included, in the model's order.

    Keras's own `_flatten_layers` reverses the order of the layers in a nested model.
    """
    for part in layer._layers:
        yield part
        yield from _inside(part)
