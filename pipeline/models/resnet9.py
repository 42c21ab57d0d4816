"""Build ResNet-9 of 3 × 3 convolutions for 32 × 32 images, after David Page's "How to train your ResNet"."""

import keras
from keras import layers

BATCH_NORM_MOMENTUM = 0.9


def build(
    *,
    num_classes: int,
    image_shape: tuple[int, int, int],
    width: int,
    batch_norm: type[layers.BatchNormalization] = layers.BatchNormalization,
) -> keras.Model:
    """Build the network, from float images (N, H, W, C) to float32 probabilities (N, num_classes).

    The four stages have 1, 2, 4 and 8 times `width` filters; the original's `width` is 64. All stages but the first
    halve height and width. The second and the last stage end in a residual block of two convolutions. `batch_norm` is
    the class of the normalization layers; runs use `pipeline.engine.BatchNormalization`. Every layer but the softmax
    follows Keras's global dtype policy.
    """

    def convolution(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        return layers.ReLU()(batch_norm(momentum=BATCH_NORM_MOMENTUM)(x))

    inputs = keras.Input(image_shape)
    x = convolution(inputs, width)
    for factor, is_residual in ((2, True), (4, False), (8, True)):
        filters = factor * width
        x = layers.MaxPooling2D()(convolution(x, filters))
        if is_residual:
            x = layers.Add()([x, convolution(convolution(x, filters), filters)])
    x = layers.GlobalMaxPooling2D()(x)
    x = layers.Dense(num_classes)(x)
    outputs = layers.Activation("softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(inputs, outputs, name="resnet9")
