"""Build the models that a benchmark can name, with all that they have in common."""

import importlib
import math

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
import numpy as np
from keras import layers

from pipeline.models import imported
from pipeline.models.imported import ModelSpec
from pipeline.study.benchmark import Augmentation, Benchmark, Imported

__all__ = ["ModelSpec", "build"]


def build(benchmark: Benchmark, num_classes: int, num_channels: int, seed: int = 0) -> keras.Model:
    """Build the benchmark's model: uint8 images (N, h, w, C) of any size to float32 probabilities (N, num_classes).

    The first weights of our own models depend on the seed alone, not on the engine. Others come from their own
    initialisers, and depend on `keras.utils.set_random_seed` and the engine.

    Images are scaled to [0, 1], resized to `image_size` and, in training, augmented inside the model, in float32
    whatever the policy, so that bytes travel to the device and the compiled step does the rest.

    Raises:
        InputError: the model can't be imported or built, or does not fit the images and classes.
    """
    image_shape = (benchmark.image_size, benchmark.image_size, num_channels)
    network = _network(benchmark, ModelSpec(image_shape, num_classes, seed, getattr(benchmark.model, "arguments", {})))
    images = keras.Input((None, None, num_channels), dtype="uint8", name="images")
    x = layers.Rescaling(1 / 255, dtype="float32")(images)
    x = layers.Resizing(benchmark.image_size, benchmark.image_size, interpolation="bilinear", dtype="float32")(x)
    for index, augmentation in enumerate(benchmark.augmentation):
        x = _augmentation(augmentation, int(np.random.default_rng((seed, index)).integers(2**31)))(x)
    return keras.Model(images, network(x), name=network.name)


def _network(benchmark: Benchmark, spec: ModelSpec) -> keras.Model:
    model = benchmark.model
    if isinstance(model, Imported):
        return imported.build(model, spec)
    # By name, because a run depends on the source of its own model alone, which its identity digests.
    arguments = model.model_dump(exclude={"name", "source"})
    if model.name in ("efficientnet", "resnet9"):
        arguments["batch_norm"] = engine.BatchNormalization
    network: keras.Model = importlib.import_module(f"pipeline.models.{model.name}").build(
        num_classes=spec.num_classes, image_shape=spec.image_shape, **arguments
    )
    _draw_kernels(network, np.random.default_rng(spec.seed))
    return network


def _augmentation(augmentation: Augmentation, seed: int) -> keras.layers.Layer:
    """Return a layer that changes images (N, H, W, C) in [0, 1] in training, and lets them through otherwise."""
    arguments = augmentation.model_dump(exclude={"name"})
    kind = getattr(layers, "".join(word.title() for word in augmentation.name.split("_")))
    layer = kind(seed=seed, dtype="float32", name=augmentation.name, **arguments)
    if keras.backend.backend() == "jax":
        layer.supports_jit = True  # Keras says no for TensorFlow's sake, whose affine transformation XLA lacks
    return layer


def _draw_kernels(network: keras.Model, generator: np.random.Generator) -> None:
    """Draw every kernel as Keras does by default, after Glorot & Bengio (2010), but with NumPy.

    Uniform on ±√(6 / (fan in + fan out)). Each engine's own generator would draw others.
    """
    for weight in network.trainable_weights:
        if len(weight.shape) > 1:
            *window, fan_in, fan_out = weight.shape
            limit = math.sqrt(6 / (math.prod(window) * (fan_in + fan_out)))
            weight.assign(generator.uniform(-limit, limit, weight.shape).astype(np.float32))
