"""Build the dense network of the TensorFlow guides (S2 in README.md): two hidden layers on flattened pixels."""

import keras
from keras import layers


def build(*, num_classes: int, image_shape: tuple[int, int, int], units: int) -> keras.Model:
    """Build the network, from float images (N, H, W, C) to float32 probabilities (N, num_classes).

    Each hidden layer has `units` units. Every layer but the softmax follows Keras's global dtype policy.
    """
    inputs = keras.Input(image_shape)
    x = layers.Flatten()(inputs)
    x = layers.Dense(units, activation="relu")(x)
    x = layers.Dense(units, activation="relu")(x)
    x = layers.Dense(num_classes)(x)
    outputs = layers.Activation("softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(inputs, outputs, name="dense")
