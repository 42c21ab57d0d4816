"""Find what is wrong with a model: compare what its layers did under a policy with what they do in float32.

Each rule yields nothing on a healthy model. `calls` are those under the policy and `wide` the same calls in float32;
`compute` is the policy's compute dtype.
"""

import math
from collections.abc import Iterator, Sequence

import keras
import numpy as np

from pipeline.health.findings import MAX_LAYERS_NAMED, Finding, Rule
from pipeline.health.observation import Call

LARGEST_FLOAT16 = float(np.finfo(np.float16).max)
SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}
MAX_FLUSHED_SHARE = 0.01
# Layers with a smaller share of the multiplications are not worth a word: squeeze-and-excite, a head of ten classes.
MIN_NARROW_SHARE = 0.05


def output(output: np.ndarray, calls: Sequence[Call], compute: str) -> Iterator[Finding]:
    dtype = str(output.dtype)
    last = [calls[-1].name]
    if dtype != "float32":
        yield Finding(rule="output_dtype", layers=last, what=f"the model returns {dtype}")
    elif compute != "float32":
        # Whatever computed them: float32 probabilities that all are numbers of the narrower type were narrower once.
        open_values = output[(output > 0) & (output < 1)]
        rounded = open_values.astype(np.float16) if compute == "float16" else _to_bfloat16(open_values)
        if len(np.unique(open_values)) > 1 and (rounded.astype(np.float32) == open_values).all():
            narrow = [call.name for call in calls if call.dtype == compute and call.shape == output.shape]
            what = f"the probabilities are computed in {compute} and widened afterwards"
            yield Finding(rule="softmax_dtype", layers=narrow[-1:] or last, what=what)


def _to_bfloat16(values: np.ndarray) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(values, "bfloat16")))


def batch_norm(calls: Sequence[Call]) -> Iterator[Finding]:
    narrow = [
        call.name
        for call in calls
        if isinstance(call.layer, keras.layers.BatchNormalization)
        and any(weight.dtype in SMALLEST_NORMAL for weight in call.layer.weights)
    ]
    if narrow:
        yield Finding(rule="batch_norm_variables", layers=narrow, what="batch norm keeps its variables in 16 bits")


def dtypes(calls: Sequence[Call], compute: str) -> Iterator[Finding]:
    """Yield layers that leave the policy between the first and the last that follow it; elsewhere, those with a kernel.

    Other layers before are preprocessing, after they are the head, as is the last kernel. What is around a layer that
    leaves the policy does as it does.
    """
    follows = [(call.layer.compute_dtype, call.dtype) == (compute, compute) for call in calls]
    if True not in follows:
        yield Finding(rule="own_dtype", layers=[], what=f"no layer computes in {compute}")
        return
    amid = range(follows.index(True), len(follows) - follows[::-1].index(True))
    kernels = [index for index in range(len(calls)) if _has_kernel(calls, index)]
    found: dict[tuple[Rule, str], list[str]] = {}
    for index in sorted({*amid, *kernels[:-1]}):
        call = calls[index]
        own = call.layer.compute_dtype
        is_itself = all(follows[index - call.num_inside : index]) or (own != compute and index in kernels)
        if follows[index] or not is_itself:
            continue
        if own != compute:
            found.setdefault(("own_dtype", f"computes in {own}, whatever the policy"), []).append(call.name)
        else:
            found.setdefault(("returned_dtype", f"returns {call.dtype} under {compute}"), []).append(call.name)
    for (rule, what), layers in found.items():
        yield Finding(rule=rule, layers=layers, what=what)


def _has_kernel(calls: Sequence[Call], index: int) -> bool:
    """Return whether a layer multiplies by a kernel of its own, and not only by those of the layers inside it."""
    call = calls[index]
    inside = {id(weight) for inner in calls[index - call.num_inside : index] for weight in inner.layer.weights}
    return any("kernel" in weight.name and id(weight) not in inside for weight in call.layer.weights)


def zeros(calls: Sequence[Call], wide: Sequence[Call], values: Sequence[Finding]) -> Iterator[Finding]:
    """Yield layers that fail on zeros in their type alone; those that fail on real images have their finding."""
    known = {name for finding in values for name in finding.layers}
    lost = [
        call.name
        for call, reference in zip(calls, wide, strict=True)
        if call.survives_zeros is False and reference.survives_zeros and call.name not in known
    ]
    if lost:
        what = "divides by zero, or takes its logarithm, where all inputs are alike: its epsilon is zero in this type"
        yield Finding(rule="vanishing_epsilon", layers=lost, what=what)


def optimizer(model: keras.Model) -> Iterator[Finding]:
    dtypes = {variable.dtype for variable in model.trainable_variables} & SMALLEST_NORMAL.keys()
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    for dtype in sorted(dtypes):
        epsilon = getattr(optimizer, "epsilon", None)
        if epsilon and epsilon < SMALLEST_NORMAL[dtype]:
            what = f"epsilon {epsilon:g} is below {SMALLEST_NORMAL[dtype]:.2g}, the smallest normal number of {dtype}"
            yield Finding(rule="optimizer_constant", layers=[], what=f"{type(optimizer).__name__}: {what}")
        for name in ("beta_1", "beta_2", "rho"):
            value = getattr(optimizer, name, None)
            if value and value < 1 and float(keras.ops.cast(keras.ops.cast(value, dtype), "float32")) == 1:
                what = f"{type(optimizer).__name__}: {name} {value:g} is 1 in {dtype}, so its average never moves"
                yield Finding(rule="optimizer_constant", layers=[], what=what)


def values(calls: Sequence[Call], wide: Sequence[Call]) -> Iterator[Finding]:
    """Yield the first layer whose values leave the type's range. What comes after it is its consequence."""
    for call, reference in zip(calls, wide, strict=True):
        if call.dtype == "float16" and reference.largest > LARGEST_FLOAT16:
            what = f"activations reach {reference.largest:.3g}, and float16 ends at {LARGEST_FLOAT16:g}"
            yield Finding(rule="float16_range", layers=[call.name], what=what)
        elif not call.is_finite:
            also = "" if reference.is_finite else ", in float32 too"
            yield Finding(rule="not_finite", layers=[call.name], what=f"returns infinity or NaN{also}")
        else:
            continue
        return


def gradients(flushed_share: float | None, scale: float) -> Iterator[Finding]:
    if flushed_share is not None and flushed_share > MAX_FLUSHED_SHARE:
        what = f"{flushed_share:.0%} of the gradients are too small for float16, even times a loss scale of {scale:g}"
        yield Finding(rule="gradient_underflow", layers=[], what=what)


def shapes(calls: Sequence[Call], multiple: int, num_channels: int, batch_size: int) -> Iterator[Finding]:
    """Yield batches and matrix layers off the multiples, where their part in the multiplications is worth naming.

    Nobody can choose the `num_channels` of the images.
    """
    if batch_size % multiple:
        yield Finding(rule="narrow_shapes", layers=[], what=f"a batch of {batch_size} is no multiple of {multiple}")
    narrow: dict[str, tuple[int, int]] = {}
    work = {True: 0.0, False: 0.0}
    for call in calls:
        kernel = getattr(call.layer, "kernel", None)
        if not isinstance(call.layer, _MATRIX_LAYERS) or kernel is None:
            continue
        channels_in, channels_out = kernel.shape[-2:]
        is_narrow = any(width % multiple for width in {channels_in, channels_out} - {num_channels})
        work[is_narrow] += math.prod(kernel.shape) * math.prod(call.shape[1:]) / channels_out
        if is_narrow:
            narrow[call.name] = (channels_in, channels_out)
    share = work[True] / max(sum(work.values()), 1.0)
    if share > MIN_NARROW_SHARE:
        widths = ", ".join(f"{name} {a} → {b}" for name, (a, b) in list(narrow.items())[:MAX_LAYERS_NAMED])
        what = f"{share:.0%} of the multiplications have widths that are no multiple of {multiple}: {widths}"
        yield Finding(rule="narrow_shapes", layers=list(narrow), what=what)


_MATRIX_LAYERS = (keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
