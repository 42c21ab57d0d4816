"""Build the models that a benchmark can name, with the input layers that they share."""

import functools
import importlib
import inspect
import math

from pipeline import engine  # import this before Keras, so that the engine starts silently

# isort: split
import keras
import numpy as np
from keras import layers

from pipeline.models import imported
from pipeline.models.imported import ModelSpec
from pipeline.study.benchmark import Augmentation, Benchmark, Imported


def build(benchmark: Benchmark, num_classes: int, num_channels: int, seed: int = 0) -> keras.Model:
    """Build the benchmark's model, from uint8 images (N, h, w, C) of any size to float32 probabilities.

    The probabilities have the shape (N, num_classes).

    The initial weights of this project's models depend on the seed, but not on the engine. Other models use their own
    initializers, which depend on `keras.utils.set_random_seed` and on the engine.

    The model's first layers scale images to [0, 1], resize them to `image_size` and, in training, augment them. These
    layers compute in float32 under every policy. As they are part of the model, images travel to the device as bytes.

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
    # Imported by name, so that a run's identity covers the source of the run's own model, and of no other model.
    arguments = model.model_dump(exclude={"name", "source"})
    build = importlib.import_module(f"pipeline.models.{model.name}").build
    if "batch_norm" in inspect.signature(build).parameters:
        arguments["batch_norm"] = engine.BatchNormalization
    network: keras.Model = build(num_classes=spec.num_classes, image_shape=spec.image_shape, **arguments)
    _draw_kernels(network, np.random.default_rng(spec.seed))
    return network


def _augmentation(augmentation: Augmentation, seed: int) -> keras.layers.Layer:
    """Return a layer that changes float32 images (N, H, W, C) in [0, 1] in training, and otherwise does nothing."""
    kinds = {
        "random_flip": functools.partial(layers.RandomFlip, "horizontal"),
        "random_translation": functools.partial(layers.RandomTranslation, interpolation="nearest"),
    }
    arguments = augmentation.model_dump(exclude={"name"})
    layer = kinds[augmentation.name](seed=seed, dtype="float32", name=augmentation.name, **arguments)
    if keras.backend.backend() == "jax":
        layer.supports_jit = True  # Keras says False because XLA can't compile TensorFlow's affine transformation
    return layer


def _draw_kernels(network: keras.Model, generator: np.random.Generator) -> None:
    """Draw all weights of two or more dimensions, except biases, with NumPy's generator.

    The distribution is Keras's default (Glorot & Bengio, 2010): uniform between −√(6 / (fan in + fan out)) and
    +√(6 / (fan in + fan out)). Each engine's own generator would draw other values.
    """
    for weight in network.trainable_weights:
        if len(weight.shape) > 1 and weight.name != "bias":  # attention has biases of two dimensions
            *window, fan_in, fan_out = weight.shape
            limit = math.sqrt(6 / (math.prod(window) * (fan_in + fan_out)))
            weight.assign(generator.uniform(-limit, limit, weight.shape).astype(np.float32))
