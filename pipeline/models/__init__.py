"""The models a benchmark can name, one module each with a `build` function."""

import importlib
import math

import keras
import numpy as np
from keras import layers

from pipeline.benchmark import Benchmark


def build(benchmark: Benchmark, num_classes: int, num_channels: int, seed: int = 0) -> keras.Model:
    """The benchmark's model: uint8 images (N, h, w, C) of any size to float32 probabilities (N, num_classes).

    Its first weights depend on the seed alone, not on the engine.

    Images are scaled to [0, 1] and resized to `image_size` inside the model, in float32 whatever the policy, so that
    bytes travel to the device and the compiled step does the rest.
    """
    arguments = benchmark.model.model_dump(exclude={"name"})
    image_shape = (benchmark.image_size, benchmark.image_size, num_channels)
    network = importlib.import_module(f"pipeline.models.{benchmark.model.name}").build(
        num_classes=num_classes, image_shape=image_shape, **arguments
    )
    _draw_kernels(network, np.random.default_rng(seed))
    images = keras.Input((None, None, num_channels), dtype="uint8", name="images")
    x = layers.Rescaling(1 / 255, dtype="float32")(images)
    x = layers.Resizing(benchmark.image_size, benchmark.image_size, interpolation="bilinear", dtype="float32")(x)
    return keras.Model(images, network(x), name=network.name)


def _draw_kernels(network: keras.Model, generator: np.random.Generator) -> None:
    """Gives every kernel values as Keras does by default, after Glorot & Bengio (2010), but drawn by NumPy.

    Uniform on ±√(6 / (fan in + fan out)). Each engine's own generator would draw others.
    """
    for weight in network.trainable_weights:
        if len(weight.shape) > 1:
            *window, fan_in, fan_out = weight.shape
            limit = math.sqrt(6 / (math.prod(window) * (fan_in + fan_out)))
            weight.assign(generator.uniform(-limit, limit, weight.shape).astype(np.float32))
