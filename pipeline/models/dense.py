"""Build the fully connected network of the TensorFlow guides: two hidden layers on flattened pixels."""

import keras
from keras import layers


def build(*, num_classes: int, image_shape: tuple[int, int, int], units: int) -> keras.Model:
    """Build the network, from float images (N, H, W, C) to float32 probabilities (N, num_classes).

    Every layer but the softmax follows the global policy.
    """
    inputs = keras.Input(image_shape)
    x = layers.Flatten()(inputs)
    x = layers.Dense(units, activation="relu")(x)
    x = layers.Dense(units, activation="relu")(x)
    x = layers.Dense(num_classes)(x)
    outputs = layers.Activation("softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(inputs, outputs, name="dense")
