"""The models a benchmark can name, one module each with a `build` function."""

import importlib

import keras
from keras import layers

from pipeline.study import Benchmark


def build(benchmark: Benchmark, num_classes: int, num_channels: int) -> keras.Model:
    """The benchmark's model: uint8 images (N, h, w, C) of any size to float32 probabilities (N, num_classes).

    Images are scaled to [0, 1] and resized to `image_size` inside the model, in float32 whatever the policy, so that
    bytes travel to the device and the compiled step does the rest.
    """
    arguments = benchmark.model.model_dump(exclude={"name"})
    image_shape = (benchmark.image_size, benchmark.image_size, num_channels)
    network = importlib.import_module(f"pipeline.models.{benchmark.model.name}").build(
        num_classes=num_classes, image_shape=image_shape, **arguments
    )
    images = keras.Input((None, None, num_channels), dtype="uint8", name="images")
    x = layers.Rescaling(1 / 255, dtype="float32")(images)
    x = layers.Resizing(benchmark.image_size, benchmark.image_size, interpolation="bilinear", dtype="float32")(x)
    return keras.Model(images, network(x), name=network.name)
