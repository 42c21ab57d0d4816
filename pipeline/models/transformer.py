"""Build a small vision transformer (Dosovitskiy et al., arXiv 2010.11929) for images of 28 × 28 or 32 × 32 pixels."""

import keras
from keras import layers

PATCH_SIZE, NUM_HEADS, EXPANSION = 4, 4, 2


class Positions(layers.Layer):
    """Add a learned vector to each token of `tokens` (N, num_tokens, width). Each place has a vector of its own."""

    def build(self, shape: tuple[int | None, int, int]) -> None:
        self.positions = self.add_weight(shape=shape[1:], initializer="glorot_uniform", name="positions")

    def call(self, tokens):
        return tokens + self.positions


def build(*, num_classes: int, image_shape: tuple[int, int, int], width: int, num_blocks: int) -> keras.Model:
    """Build the network, from float images (N, H, W, C) to float32 probabilities (N, num_classes).

    Each patch of 4 × 4 pixels becomes a token of `width` values. Each block normalizes its input before attention and
    before two dense layers (pre-norm). The mean over tokens takes the place of a class token. Every layer but the
    softmax follows Keras's global dtype policy.
    """
    inputs = keras.Input(image_shape)
    x = layers.Conv2D(width, PATCH_SIZE, strides=PATCH_SIZE)(inputs)
    x = Positions()(layers.Reshape((-1, width))(x))
    for _ in range(num_blocks):
        normal = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(NUM_HEADS, width // NUM_HEADS)(normal, normal)])
        hidden = layers.Dense(EXPANSION * width, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(width)(hidden)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    x = layers.Dense(num_classes)(x)
    outputs = layers.Activation("softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(inputs, outputs, name="transformer")
