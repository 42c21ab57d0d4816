"""Find what makes a model unfit for 16 bits: three rules, which yield nothing on a healthy model."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from pipeline.study.variant import expected_dtypes

SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}


class Finding(NamedTuple):
    """One thing that is wrong with a model under a policy, and what mends it; no `layers` stand for the whole model."""

    rule: str
    layers: list[str]
    what: str
    remedy: str


def examine(model: keras.Model, policy: str, images: np.ndarray) -> list[Finding]:
    """Return what is wrong with a compiled model that was built under `policy`.

    Args:
        images: what the model takes, (N, ...); a few dozen are enough.
    """
    compute = expected_dtypes(policy).compute
    layers = [
        layer
        for layer in model._flatten_layers(include_self=False)
        if not isinstance(layer, keras.Model | keras.layers.InputLayer)
    ]
    probabilities = keras.ops.convert_to_numpy(model(images))
    return [*narrow_output(probabilities, layers, compute), *own_dtypes(layers, compute), *never_trains(model)]


def narrow_output(probabilities: np.ndarray, layers: Sequence[keras.layers.Layer], compute: str) -> Iterator[Finding]:
    """Yield a finding where probabilities are computed in 16 bits, whatever type they are cast to afterwards."""
    found = str(probabilities.dtype)
    # float32 probabilities that all are numbers of the narrower type were narrower once.
    open_values = probabilities[(probabilities > 0) & (probabilities < 1)]
    if found == "float32" and compute != "float32" and len(np.unique(open_values)) > 1:
        narrowed = keras.ops.cast(keras.ops.cast(open_values, compute), "float32")
        if (keras.ops.convert_to_numpy(narrowed) == open_values).all():
            found = compute
    if found != "float32":
        last = [layer.name for layer in layers if layer.compute_dtype == found]
        remedy = 'Give dtype="float32" to the softmax itself. A cast after it brings no digits back'
        yield Finding("narrow_output", last[-1:], f"the probabilities are computed in {found}", remedy)


def own_dtypes(layers: Sequence[keras.layers.Layer], compute: str) -> Iterator[Finding]:
    """Yield layers that leave the policy between the first and the last that follow it; elsewhere, those with a kernel.

    Other layers before are preprocessing, after they are the head, as is the last kernel.
    """
    follows = [layer.compute_dtype == compute for layer in layers]
    if True not in follows:  # training refuses such a model
        return
    amid = range(follows.index(True), len(follows) - follows[::-1].index(True))
    kernels = [index for index, layer in enumerate(layers) if getattr(layer, "kernel", None) is not None]
    found: dict[str, list[str]] = {}
    for index in sorted({*amid, *kernels[:-1]}):
        if not follows[index]:
            found.setdefault(layers[index].compute_dtype, []).append(layers[index].name)
    remedy = "Leave dtype out, unless it is meant: each such layer costs two casts and runs at the speed of its type"
    for dtype, names in found.items():
        yield Finding("own_dtype", names, f"computes in {dtype}, whatever the policy", remedy)


def never_trains(model: keras.Model) -> Iterator[Finding]:
    """Yield constants of the optimizer that its variables, where they have 16 bits, can't hold."""
    optimizer: Any = model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    remedy = "Use a mixed_ policy, under which variables and optimizer are float32"
    for dtype in sorted({variable.dtype for variable in model.trainable_variables} & SMALLEST_NORMAL.keys()):
        epsilon = getattr(optimizer, "epsilon", None)
        if epsilon and epsilon < SMALLEST_NORMAL[dtype]:
            what = f"{optimizer.name}: epsilon {epsilon:g} is below the smallest normal number of {dtype}"
            yield Finding("never_trains", [], what, remedy)
        for name in ("beta_1", "beta_2", "rho"):
            value = getattr(optimizer, name, None)
            if value and value < 1 and float(keras.ops.cast(keras.ops.cast(value, dtype), "float32")) == 1:
                what = f"{optimizer.name}: {name} {value:g} is 1 in {dtype}, so its average never moves"
                yield Finding("never_trains", [], what, remedy)
