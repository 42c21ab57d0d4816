"""Build EfficientNet layer by layer, as the CIFAR-100 notebook (S3 in README.md) does.

The notebook's network departs from Tan & Le (2019, arXiv 1905.11946) in four ways. relu6 replaces swish, convolutions
have a bias, the first block keeps its expansion convolution, and there is neither dropout nor stochastic depth.
"""

import math
from dataclasses import dataclass

import keras
from keras import layers


@dataclass(frozen=True)
class Stage:
    """Describe `repeats` inverted residual blocks in a row.

    The first block has the stride `stride`, and the others have the stride 1. The first convolution of each block
    multiplies the number of channels by `expansion`.
    """

    filters: int
    kernel_size: int
    repeats: int
    stride: int
    expansion: int = 6


STAGES = (
    Stage(16, 3, 1, 1, expansion=1),
    Stage(24, 3, 2, 2),
    Stage(40, 5, 2, 2),
    Stage(80, 3, 3, 2),
    Stage(112, 5, 3, 1),
    Stage(192, 5, 4, 2),
    Stage(320, 3, 1, 1),
)
STEM_FILTERS = 32
HEAD_FILTERS = 1280


def build(
    *,
    num_classes: int,
    image_shape: tuple[int, int, int],
    depth: float = 1.0,
    batch_norm_momentum: float = 0.99,
    batch_norm: type[layers.BatchNormalization] = layers.BatchNormalization,
) -> keras.Model:
    """Build the network, from float images (N, H, W, C) to float32 probabilities (N, num_classes).

    Every layer but the softmax follows Keras's global dtype policy. `depth` multiplies the repeats of all stages but
    the first, rounded up. `batch_norm` is the class of the normalization layers; runs use
    `pipeline.engine.BatchNormalization`.
    """
    inputs = keras.Input(image_shape)

    def normalise(x):
        return batch_norm(momentum=batch_norm_momentum)(x)

    x = layers.Conv2D(STEM_FILTERS, 3, strides=2, padding="same")(inputs)
    x = layers.ReLU(6.0)(normalise(x))
    for index, stage in enumerate(STAGES):
        for repeat in range(math.ceil(stage.repeats * depth) if index else stage.repeats):
            stride = stage.stride if repeat == 0 else 1
            x = _inverted_residual(x, stage.filters, stage.kernel_size, stride, stage.expansion, normalise)
    x = layers.Conv2D(HEAD_FILTERS, 1, padding="same")(x)
    x = layers.ReLU(6.0)(normalise(x))
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(num_classes)(x)
    outputs = layers.Activation("softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(inputs, outputs, name="efficientnet")


def _inverted_residual(x, filters, kernel_size, stride, expansion, normalise):
    """Expand the channels of `x`, filter each channel in space, weight the channels, and project to `filters` channels.

    Add `x` to the result if the two have the same shape.
    """
    entry = x
    expanded = entry.shape[-1] * expansion
    x = layers.Conv2D(expanded, 1, padding="same")(x)
    x = layers.ReLU(6.0)(normalise(x))
    x = layers.DepthwiseConv2D(kernel_size, strides=stride, padding="same")(x)
    x = layers.ReLU(6.0)(normalise(x))
    x = _weigh_channels(x, expanded, expanded // (24 if expanded % 24 == 0 else 4))
    x = layers.Conv2D(filters, 1, padding="same")(x)
    x = normalise(x)
    return layers.Add()([x, entry]) if stride == 1 and entry.shape[-1] == filters else x


def _weigh_channels(x, channels, squeezed):
    """Multiply the channels of `x` by weights in [0, 1] that two 1 × 1 convolutions compute from channel means."""
    weights = layers.GlobalAveragePooling2D(keepdims=True)(x)
    weights = layers.Conv2D(squeezed, 1, activation="relu6")(weights)
    weights = layers.Conv2D(channels, 1, activation="sigmoid")(weights)
    return layers.Multiply()([x, weights])
