"""Is a model fit for a 16-bit policy? What a few real images show, layer by layer."""

from collections.abc import Callable

import keras
import numpy as np

from pipeline import exponents, health_rules
from pipeline.errors import InputError
from pipeline.findings import Examination
from pipeline.observation import observe
from pipeline.precision import expected_dtypes

LOSS_SCALE = 2.0**15  # at which a dynamic one starts


def examine(
    build: Callable[[str], keras.Model],
    policy: str,
    images: np.ndarray,
    labels: np.ndarray,
    batch_size: int | None = None,
    multiple: int | None = None,
) -> Examination:
    """What is wrong with the model that `build` makes under `policy`, by rules that a healthy one breaks none of.

    One training pass over `images` shows dtypes and values of every layer, also of those inside others, beside the
    same pass in float32. A compiled model's optimizer is looked at too.

    Args:
        build: takes a policy; models of one seed differ in nothing else.
        images: what the model takes, (N, ...); a few dozen are enough.
        labels: integer (N,).
        batch_size: of training, by default N. The mean over more examples has smaller gradients.
        multiple: of what the device wants the widths of matrices to be; None where it gains nothing from it.

    Raises:
        InputError: the two models do not have the same layers.
    """
    compute = expected_dtypes(policy).compute
    reference = build("float32")
    model = reference if policy == "float32" else build(policy)
    if [weight.shape for weight in model.weights] != [weight.shape for weight in reference.weights]:
        raise InputError(f"the model must have the same weights under {policy} as under float32")
    model.set_weights(reference.get_weights())
    sizes = _gradient_sizes(reference, images, labels, batch_size or len(images)) if compute == "float16" else None
    wide, output = observe(reference, images)
    calls = wide
    if model is not reference:
        calls, output = observe(model, images)
    if len(calls) != len(wide):
        raise InputError(f"the model must have the same layers under {policy} as under float32")
    # Keras numbers the layers of a second model on; those of the first have the names that a summary shows.
    calls = [call._replace(name=first.name) for call, first in zip(calls, wide, strict=True)]
    scale = LOSS_SCALE if policy == "mixed_float16" else 1.0
    flushed = None if sizes is None else exponents.flushed_share(sizes)
    flushed_scaled = None if sizes is None else exponents.flushed_share(sizes * np.float32(scale))
    values = list(health_rules.values(calls, wide))
    findings = [
        *health_rules.output(output, calls, compute),
        *health_rules.batch_norm(calls),
        *health_rules.dtypes(calls, compute),
        *health_rules.zeros(calls, wide, values),
        *health_rules.optimizer(model),
        *values,
        *health_rules.gradients(flushed_scaled, scale),
        *(health_rules.shapes(calls, multiple, images.shape[-1]) if multiple and compute != "float32" else ()),
    ]
    largest = max((call.largest for call in wide), default=0.0)
    return Examination(
        policy=policy,
        findings=findings,
        largest_activation=largest,
        flushed_share=flushed,
        flushed_share_scaled=flushed_scaled,
    )


def _gradient_sizes(model: keras.Model, images: np.ndarray, labels: np.ndarray, batch_size: int) -> np.ndarray | None:
    """Sizes of the activation gradients that are not zero, for the mean loss of `batch_size` examples; or None."""
    try:
        sizes = exponents.gradient_sizes(model, images, labels)
    except (AttributeError, TypeError, ValueError):  # no functional model, or a layer's outputs are none of its graph
        return None
    nonzero = sizes[sizes > 0] * np.float32(len(images) / batch_size)
    return nonzero if len(nonzero) else None
