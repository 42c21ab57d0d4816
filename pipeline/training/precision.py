"""Check that a model computes as its policy says, and apply loss scales."""

from collections.abc import Iterator

import keras
import numpy as np

from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark, Imported
from pipeline.study.policies import POLICIES
from pipeline.study.variant import Dtypes, LossScale, Variant, expected_dtypes


def observed_dtypes(model: keras.Model, output_dtype: str) -> Dtypes:
    """Return the dtypes of `model`, as found in its layers that own weights, trainable or not.

    Several dtypes are joined by "+", as in "bfloat16+float32". A layer that Keras converted to float8 counts as
    "float8". `output_dtype` is the dtype of a prediction by `model`.
    """
    layers = list(_layers_with_weights(model))
    return Dtypes(
        compute="+".join(
            sorted({getattr(layer, "quantization_mode", None) or layer.compute_dtype for layer in layers})
        ),
        variable="+".join(sorted({str(weight.dtype) for layer in layers for weight in layer.weights})),
        output=output_dtype,
    )


def check_model(name: str, benchmark: Benchmark, variant: Variant, dtypes: Dtypes, probabilities: np.ndarray) -> None:
    """Refuse a model whose dtypes are not its variant's, or a user's model that does not return probabilities.

    Layers may compute in float32 if the variant has `float32_layers`. Some layers of a user's model may have any dtype.
    In both cases, at least one layer must follow the policy.

    Args:
        name: the name of the model in messages.
        dtypes: the dtypes of the model, from `observed_dtypes`.
        probabilities: a prediction of the model, (N, num_classes).

    Raises:
        InputError: the dtypes are wrong, or a user's model returns finite numbers of which some are negative or a row
            does not sum to one.
    """
    expected = expected_dtypes(variant.policy)
    fits = dtypes == expected
    if variant.float32_layers:
        kinds = {*dtypes.compute.split("+")}
        fits = expected.compute in kinds and kinds <= {expected.compute, "float32"} and dtypes[1:] == expected[1:]
    elif isinstance(benchmark.model, Imported):
        fits = all(expected[i] in dtypes[i].split("+") for i in range(2)) and dtypes.output == expected.output
    if not fits:
        raise InputError(
            f"{name}: compute, variable and output dtypes must be {', '.join(expected)} under {variant.policy}. "
            f"Received: {', '.join(dtypes)}. Layers follow Keras's global policy; give a dtype only to the last."
        )
    one = bool((probabilities >= 0).all()) and np.allclose(probabilities.sum(axis=1), 1, atol=1e-2)
    if isinstance(benchmark.model, Imported) and np.isfinite(probabilities).all() and not one:
        raise InputError(
            f"{name} must return probabilities that sum to 1: end it with a softmax in float32. "
            f"Received: {np.array2string(probabilities[0], precision=3, threshold=6)}"
        )


def float32_products() -> str:
    """Return the format, one of `FORMATS`, to which this process rounds the factors of float32 products.

    The function multiplies two test values by 1, in a matrix product and in a convolution. The value 1 + 2⁻¹² has 13
    significant bits, so TF32, which keeps 11 bits, rounds this value. The value 1 + 2⁻⁹ has 10 significant bits, so
    TF32 keeps this value, and bfloat16, which keeps 8 bits, rounds it.
    """
    one = np.eye(64, dtype=np.float32)
    kernel = np.zeros((3, 3, 64, 64), np.float32)
    kernel[1, 1] = one  # an identity: the image stays as it is
    for number_format, bit in (("float32", 2**-12), ("tf32", 2**-9)):
        value = np.float32(1 + bit)
        products = (
            keras.ops.matmul(np.full((1024, 64), value), one),
            keras.ops.conv(np.full((4, 16, 16, 64), value), kernel, padding="same"),
        )
        if all(np.abs(keras.ops.convert_to_numpy(product) - value).max() < bit / 2 for product in products):
            return number_format
    return "bfloat16"


def check_float32(policy: str) -> str:
    """Return the result of `float32_products`, and refuse the policy float32 if the factors of products are rounded.

    An environment variable or a line of the user's model can turn rounding on. Without this check, no record would show
    the rounding, and float32 would seem faster than it is.

    Raises:
        InputError: `policy` multiplies in float32, but factors are rounded.
    """
    rounded_to = float32_products()
    if POLICIES[policy].products == "float32" != rounded_to:
        raise InputError(
            f"the policy is {policy}, but products round float32 to {rounded_to} here. An environment variable (`env | "
            "grep -e FPMATH -e TF32`) or your model's code turned this rounding on."
        )
    return rounded_to


def scaled(optimizer: keras.optimizers.Optimizer, loss_scale: LossScale) -> keras.optimizers.Optimizer:
    """Return an optimizer whose `scale_loss` multiplies the loss by the loss scale.

    The optimizer's `apply_gradients` divides the gradients by the scale. In the mode "none", neither changes anything.
    Compile the model with `auto_scale_loss=False`. Otherwise, under mixed_float16, Keras replaces a fixed scale, or
    none, by a dynamic scale.
    """
    if loss_scale.mode == "dynamic":
        return keras.optimizers.LossScaleOptimizer(
            optimizer, initial_scale=loss_scale.initial, dynamic_growth_steps=loss_scale.growth_steps
        )
    if loss_scale.mode == "fixed":
        optimizer.loss_scale_factor = loss_scale.value
    return optimizer


def loss_scale_now(optimizer: keras.optimizers.Optimizer) -> float | None:
    """Return the current loss scale, or None if the loss is not scaled."""
    scale = getattr(optimizer, "dynamic_scale", None)
    if scale is None:
        scale = optimizer.loss_scale_factor
    return None if scale is None else float(keras.ops.convert_to_numpy(scale))


def steps_taken(optimizer: keras.optimizers.Optimizer) -> int:
    """Return how many steps the optimizer has taken, without the steps that a dynamic loss scale skipped.

    Keras's own `iterations` would not count the steps in which an optimizer only accumulates gradients.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return int(keras.ops.convert_to_numpy(inner._iterations))


def _layers_with_weights(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    parts = getattr(layer, "layers", [])
    for part in parts:
        yield from _layers_with_weights(part)
    if not parts and layer.weights:
        yield layer
