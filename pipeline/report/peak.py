"""Compute the share of a GPU's peak FLOP/s that a training step reaches, for dense networks on known GPUs."""

from pipeline.comparison.tables import Row
from pipeline.study.benchmark import Benchmark, Dense
from pipeline.study.policies import POLICIES
from pipeline.study.variant import Variant

_HOPPER = {"float32": 67.0, "tf32": 494.5, "float16": 989.5, "bfloat16": 989.5, "float8": 1979.0}
_AMPERE = {"float32": 19.5, "tf32": 156.0, "float16": 312.0, "bfloat16": 312.0}
# Dense (not sparse) TFLOP/s by the GPU's full name and by number format, from NVIDIA's data sheets for the H200, the
# H100 (SXM), the A100 and the V100 (SXM2).
PEAKS = {
    "NVIDIA H200": _HOPPER,
    "NVIDIA H100 80GB HBM3": _HOPPER,
    "NVIDIA A100-SXM4-40GB": _AMPERE,
    "NVIDIA A100-SXM4-80GB": _AMPERE,
    "Tesla V100-SXM2-16GB": {"float32": 15.7, "float16": 125.0},
}
DENSE_DATASETS = {"mnist": (28 * 28, 10)}  # values per image, classes


def share_of_peak(
    benchmark: Benchmark, variant: Variant, timed: Row | None, step_seconds: float | None
) -> float | None:
    """Return the share in [0, 1] of the device's peak FLOP/s that a training step reaches, or None if unknown."""
    flops = flops_of_step(benchmark, variant)
    peaks = PEAKS.get(timed.device, {}) if timed else {}
    peak = peaks.get(POLICIES[variant.policy].products)
    return flops / step_seconds / (peak * 1e12) if flops and peak and step_seconds else None


def flops_of_step(benchmark: Benchmark, variant: Variant) -> float | None:
    """Count the floating-point operations of the matrix products in a dense network's step.

    Return None for other networks, and for datasets that are not in `DENSE_DATASETS`.

    For each image, an (n, m) matrix takes 2nm operations in the forward pass, 2nm for the gradient of the weights, and
    2nm for the gradient of the layer's input. The first layer needs no gradient of its input.
    """
    if not isinstance(benchmark.model, Dense) or benchmark.dataset not in DENSE_DATASETS:
        return None
    num_inputs, num_classes = DENSE_DATASETS[benchmark.dataset]
    units = benchmark.model.units
    first, rest = num_inputs * units, units * units + units * num_classes
    return 2.0 * benchmark.batch_size * variant.batch_multiplier * (2 * first + 3 * rest)
