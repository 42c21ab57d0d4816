"""Build a network of `keras.applications` with random weights and a head for our classes."""

import inspect

import keras
from keras import layers

from pipeline.errors import InputError

FIXED_ARGUMENTS = {
    "include_top",
    "weights",
    "input_tensor",
    "input_shape",
    "pooling",
    "classes",
    "classifier_activation",
    "name",
}


def build(*, name: str, num_classes: int, image_shape: tuple[int, int, int], **arguments) -> keras.Model:
    """Build the network: float images (N, H, W, C) in [0, 1] to float32 probabilities (N, num_classes).

    Every layer but the softmax follows the global policy. Where the network would scale images itself, it is told not
    to; the family of EfficientNet can't be told, and gets its images in [0, 255].

    Raises:
        InputError: Keras has no such network, or it refuses the arguments or the size of the images.
    """
    function = getattr(keras.applications, name, None)
    if not inspect.isfunction(function):
        names = sorted(key for key, value in vars(keras.applications).items() if inspect.isfunction(value))
        raise InputError(f"keras.applications has no {name}. It has: {', '.join(names)}")
    known = inspect.signature(function).parameters.keys() - FIXED_ARGUMENTS
    if unknown := sorted(arguments.keys() - known):
        raise InputError(
            f"keras.applications:{name} takes no {', '.join(unknown)} here. "
            f"It takes: {', '.join(sorted(known)) or 'no arguments'}"
        )
    if "include_preprocessing" in known:
        arguments = {"include_preprocessing": False} | arguments
    inputs = keras.Input(image_shape)
    scale = 255.0 if name.startswith("EfficientNetB") else 1.0
    x = layers.Rescaling(scale, dtype="float32")(inputs) if scale != 1.0 else inputs
    try:
        backbone = function(include_top=False, weights=None, input_tensor=x, pooling="avg", **arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"keras.applications:{name} can't be built for images of {image_shape}: {error}") from None
    x = layers.Dense(num_classes)(backbone.output)
    outputs = layers.Activation("softmax", dtype="float32", name="probabilities")(x)
    return keras.Model(inputs, outputs, name=name.lower())
