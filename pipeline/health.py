"""Is a model fit for a 16-bit policy? Rules on its layers' dtypes, and on what real images and gradients do in them."""

import math
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np

from pipeline import exponents
from pipeline.errors import InputError
from pipeline.findings import Examination, Finding, Rule
from pipeline.observation import Call, observe
from pipeline.precision import expected_dtypes

LARGEST_FLOAT16 = float(np.finfo(np.float16).max)
SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}
LOSS_SCALE = 2.0**15  # at which a dynamic one starts
MAX_FLUSHED_SHARE = 0.01
# Layers with a smaller share of the multiplications are not worth a word: squeeze-and-excite, a head of ten classes.
MIN_NARROW_SHARE = 0.05
MAX_NAMED = 3


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
    values = list(_values(calls, wide))
    findings = [
        *_output(output, calls, compute),
        *_batch_norm(calls),
        *_dtypes(calls, compute),
        *_zeros(calls, wide, values),
        *_optimizer(model),
        *values,
        *_gradients(flushed_scaled, scale),
        *(_shapes(calls, multiple, images.shape[-1]) if multiple and compute != "float32" else ()),
    ]
    largest = max((call.largest for call in wide), default=0.0)
    return Examination(
        policy=policy,
        findings=findings,
        largest_activation=largest,
        flushed_share=flushed,
        flushed_share_scaled=flushed_scaled,
    )


def _output(output: np.ndarray, calls: Sequence[Call], compute: str) -> Iterator[Finding]:
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


def _batch_norm(calls: Sequence[Call]) -> Iterator[Finding]:
    narrow = [
        call.name
        for call in calls
        if isinstance(call.layer, keras.layers.BatchNormalization)
        and any(weight.dtype in SMALLEST_NORMAL for weight in call.layer.weights)
    ]
    if narrow:
        yield Finding(rule="batch_norm_variables", layers=narrow, what="batch norm keeps its variables in 16 bits")


def _dtypes(calls: Sequence[Call], compute: str) -> Iterator[Finding]:
    """Layers that leave the policy between the first and the last that follow it.

    What comes before is preprocessing, what comes after the head, and what is around such a layer does as it does.
    """
    follows = [(call.layer.compute_dtype, call.dtype) == (compute, compute) for call in calls]
    if True not in follows:
        yield Finding(rule="own_dtype", layers=[], what=f"no layer computes in {compute}")
        return
    found: dict[tuple[Rule, str], list[str]] = {}
    for index in range(follows.index(True), len(follows) - follows[::-1].index(True)):
        call = calls[index]
        if follows[index] or not all(follows[index - call.num_inside : index]):
            continue
        own = call.layer.compute_dtype
        if own != compute:
            found.setdefault(("own_dtype", f"computes in {own}, whatever the policy"), []).append(call.name)
        else:
            found.setdefault(("returned_dtype", f"returns {call.dtype} under {compute}"), []).append(call.name)
    for (rule, what), layers in found.items():
        yield Finding(rule=rule, layers=layers, what=what)


def _zeros(calls: Sequence[Call], wide: Sequence[Call], values: Sequence[Finding]) -> Iterator[Finding]:
    """Layers that fail on zeros in their type alone; those that fail on real images have their finding already."""
    known = {name for finding in values for name in finding.layers}
    lost = [
        call.name
        for call, reference in zip(calls, wide, strict=True)
        if call.survives_zeros is False and reference.survives_zeros and call.name not in known
    ]
    if lost:
        what = "divides by zero, or takes its logarithm, where all inputs are alike: its epsilon is zero in this type"
        yield Finding(rule="vanishing_epsilon", layers=lost, what=what)


def _optimizer(model: keras.Model) -> Iterator[Finding]:
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


def _values(calls: Sequence[Call], wide: Sequence[Call]) -> Iterator[Finding]:
    """The first layer whose values leave the type's range. What comes after it is its consequence."""
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


def _gradients(flushed_share: float | None, scale: float) -> Iterator[Finding]:
    if flushed_share is not None and flushed_share > MAX_FLUSHED_SHARE:
        what = f"{flushed_share:.0%} of the gradients are too small for float16, even times a loss scale of {scale:g}"
        yield Finding(rule="gradient_underflow", layers=[], what=what)


def _shapes(calls: Sequence[Call], multiple: int, num_channels: int) -> Iterator[Finding]:
    """Matrix layers with widths off the multiples, where they have a part in the multiplications worth naming.

    Nobody can choose the `num_channels` of the images.
    """
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
        widths = ", ".join(f"{name} {a} → {b}" for name, (a, b) in list(narrow.items())[:MAX_NAMED])
        what = f"{share:.0%} of the multiplications have widths that are no multiple of {multiple}: {widths}"
        yield Finding(rule="narrow_shapes", layers=list(narrow), what=what)


_MATRIX_LAYERS = (keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)


def _gradient_sizes(model: keras.Model, images: np.ndarray, labels: np.ndarray, batch_size: int) -> np.ndarray | None:
    """Sizes of the activation gradients that are not zero, for the mean loss of `batch_size` examples; or None."""
    try:
        sizes = exponents.gradient_sizes(model, images, labels)
    except (AttributeError, TypeError, ValueError):  # no functional model, or a layer's outputs are none of its graph
        return None
    nonzero = sizes[sizes > 0] * np.float32(len(images) / batch_size)
    return nonzero if len(nonzero) else None
