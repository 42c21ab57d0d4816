"""Find out exactly what 16-bit arithmetic does: dtypes, range, loss scaling, sizes, shapes.

NumPy's arithmetic alone is timed.
"""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipeline import engine
from pipeline.numerics.facts import POLICIES, TWICE, TYPES
from pipeline.study.benchmark import Benchmark, Imported
from pipeline.training import building
from pipeline.training.precision import loss_scale_now, observed_dtypes

LAYER_COLUMNS = ("benchmark", "policy", "layer", "kind", "compute_dtype", "variable_dtype", "output_dtype")
EPSILONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # between 1 and the next larger value
LIMIT_BYTES = 500_000  # of a model that has to fit somewhere small
Facts = dict[str, str | int | float | bool]


def range_facts() -> Facts:
    """Square values as the engine does and tell which leave the range of a type; tell the bytes of a value."""
    facts: Facts = {}
    for dtype in TYPES:
        for value in (256.0, 0.00001):
            square = keras.ops.square(keras.ops.cast(value, dtype))
            facts[f"square_of_{value:g}.{dtype}"] = str(float(keras.ops.cast(square, "float32")))
        facts[f"smallest_square_is_zero.{dtype}"] = facts[f"square_of_1e-05.{dtype}"] == "0.0"
        for value in (4e-08, 65519.0):
            rounded = keras.ops.cast(keras.ops.convert_to_tensor(np.float32(value)), dtype)
            facts[f"rounded_{value:g}.{dtype}"] = str(float(keras.ops.cast(rounded, "float32")))
        parts = keras.ops.softmax(keras.ops.cast([0.0, -20.0], dtype))
        facts[f"softmax_of_minus_20_is_zero.{dtype}"] = float(keras.ops.cast(parts, "float32")[1]) == 0.0
        facts[f"bytes_per_value.{dtype}"] = _bytes_per_value(dtype)
        facts[f"largest.{dtype}"] = _largest(dtype)
    facts["float32_parameters_in_500_kilobytes"] = LIMIT_BYTES // _bytes_per_value("float32")
    for units in TWICE:
        ratio = dense_parameters(2 * units) / dense_parameters(units)
        facts[f"parameters_of_twice_the_units.{units}"] = round(ratio, 2)
    return facts


def accumulation_facts(length: int = 4096) -> Facts:
    """Multiply 16-bit matrices as the engine does, and tell in which type it adds the products up.

    Every factor is a multiple of 1/16 between 1 and 2, so that float32 holds each product and each partial sum exactly,
    whatever their order. A sum in float32 then ends on one of the two 16-bit values around the exact one. One in 16
    bits is further off somewhere among so many, also where many lanes share the sum.
    """
    rng = np.random.default_rng(0)
    left, right = (1 + rng.integers(0, 16, shape) / 16 for shape in ((64, length), (length, 64)))
    facts: Facts = {}
    for dtype, epsilon in EPSILONS.items():
        product = keras.ops.matmul(*(keras.ops.cast(factor.astype("float32"), dtype) for factor in (left, right)))
        found = keras.ops.convert_to_numpy(keras.ops.cast(product, "float32"))
        facts[f"products_accumulate_in.{dtype}"] = "float32" if ends_beside(found, left @ right, epsilon) else dtype
    return facts


def ends_beside(found: np.ndarray, exact: np.ndarray, epsilon: float) -> bool:
    """Tell whether each value found is less than a place from the exact one, in a type of this machine epsilon."""
    place = 2.0 ** np.floor(np.log2(exact)) * epsilon
    return bool((np.abs(found - exact) < place).all())


def dense_parameters(units: int, num_inputs: int = 28 * 28, num_classes: int = 10) -> int:
    """Count the parameters of the dense model: two layers of `units` and the classes, each with its bias."""
    return (num_inputs + 1) * units + (units + 1) * units + (units + 1) * num_classes


def numpy_speedups(num_tries: int = 9, shape: tuple[int, int] = (8192, 784)) -> list[float]:
    """Return how many times as fast NumPy divides and adds in float16 as in float32, once a try, both in turns.

    The default is a batch of MNIST as the sources prepare it. A first try, which fetches the memory, is left out.
    """
    inputs = {dtype: np.ones(shape, dtype) for dtype in ("float32", "float16")}
    found = []
    for _ in range(num_tries + 1):
        seconds = {}
        for dtype, values in inputs.items():
            started = time.perf_counter()
            values / values.dtype.type(255) + values
            seconds[dtype] = time.perf_counter() - started
        found.append(seconds["float32"] / seconds["float16"])
    return found[1:]


def _bytes_per_value(dtype: str) -> int:
    return int(keras.ops.convert_to_numpy(keras.ops.zeros((1000,), dtype)).nbytes // 1000)


def _largest(dtype: str) -> float:
    """Find the largest finite value: double, then fill in bits until nothing is finite any more."""

    def rounded(value: float) -> float:
        """Round `value` to the type; beyond float32 no type is left."""
        with np.errstate(over="ignore"):
            tensor = keras.ops.cast(keras.ops.convert_to_tensor(np.float32(value)), dtype)
        return float(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")))

    value, step = 1.0, 1.0
    while np.isfinite(rounded(value * 2)):
        value *= 2
    step = value / 2
    while step >= value * 2.0**-24:
        # Casts round to nearest: what counts is that the sum is kept as it is.
        if rounded(value + step) == value + step:
            value += step
        step /= 2
    return value


def policy_facts(benchmark: Benchmark, num_classes: int, num_channels: int) -> Facts:
    """Return the dtypes of computations, variables and output under each policy, and Keras's treatment of the loss.

    Of a model of our own: they tell of policies, not of models.
    """
    facts: Facts = {}
    if isinstance(benchmark.model, Imported):  # whose layers need not follow the policy, and may be slow to build
        benchmark = benchmark.with_dense_model(units=64)
    for policy in POLICIES:
        model, _ = building.build_model(benchmark, policy, num_classes, num_channels, seed=0)
        image = np.zeros((1, benchmark.image_size, benchmark.image_size, num_channels), np.uint8)
        observed = observed_dtypes(model, str(model.predict(image, verbose=0).dtype))
        for name, dtype in observed._asdict().items():
            facts[f"{name}_dtype.{policy}"] = dtype
        facts |= _unpinned_dtypes(policy)
        # What happens where nobody asks for anything; our own runs set the loss scale themselves.
        model.compile(keras.optimizers.SGD(), "sparse_categorical_crossentropy")
        model.optimizer.build(model.trainable_variables)
        facts[f"default_loss_scale.{policy}"] = "none" if loss_scale_now(model.optimizer) is None else "dynamic"
    return facts


def _unpinned_dtypes(policy: str) -> Facts:
    """Return the dtypes of input, hidden layer and softmax of a model that leaves all of them to `policy`."""
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3), keras.layers.Activation("softmax")]
        model = keras.Sequential([keras.Input((4,)), *layers])
    finally:
        keras.config.set_dtype_policy(previous)
    ends = {"input": model.inputs[0], "hidden": layers[0].output, "softmax": model.outputs[0]}
    return {f"{name}_dtype.{policy}": str(tensor.dtype) for name, tensor in ends.items()}


def loss_scale_facts(growth_steps: int = 2000) -> Facts:
    """Drive a dynamic loss scale through a whole growth period, and then into an overflow."""
    weight = keras.Variable(np.ones(3, np.float32))
    inner = keras.optimizers.SGD(learning_rate=0.001)
    optimizer = keras.optimizers.LossScaleOptimizer(inner)  # explicitly, as around any optimizer
    optimizer.build([weight])
    start = loss_scale_now(optimizer) or 0.0
    good = engine.apply_step(optimizer, weight)
    for _ in range(growth_steps - 1):
        good(np.ones(3, np.float32))
    before = loss_scale_now(optimizer) or 0.0
    good(np.ones(3, np.float32))
    after = loss_scale_now(optimizer) or 0.0
    steps, values = int(optimizer.iterations), keras.ops.convert_to_numpy(weight.value).copy()
    good(np.array([1, np.inf, 1], np.float32))
    return {
        "loss_scale.start": start,
        "loss_scale.growth_steps": growth_steps if (before, after) == (start, 2 * start) else -1,
        "loss_scale.growth_factor": after / before,
        "loss_scale.factor_at_overflow": (loss_scale_now(optimizer) or 0.0) / after,
        "loss_scale.overflow_is_skipped": bool(
            (keras.ops.convert_to_numpy(weight.value) == values).all() and int(optimizer.iterations) == steps
        ),
    }


def layer_rows(name: str, models: Mapping[str, keras.Model]) -> list[dict[str, str]]:
    """List the compute, variable and output dtype of every layer of a benchmark's model, built under each policy."""
    rows = []
    for policy, model in models.items():
        for layer in _layers(model):
            rows.append(
                {
                    "benchmark": name,
                    "policy": policy,
                    "layer": layer.name,
                    "kind": type(layer).__name__,
                    "compute_dtype": str(layer.compute_dtype),
                    "variable_dtype": "+".join(sorted({str(weight.dtype) for weight in layer.weights})) or "none",
                    "output_dtype": "+".join(
                        sorted({str(tensor.dtype) for tensor in keras.tree.flatten(layer.output)})
                    ),
                }
            )
    return rows


def model_facts(models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """Return the bytes of a model's weights under each policy, in memory and saved, and its layers of unfit width.

    Matrix units work on blocks: `narrow_layers` names, for GPUs (8) and TPUs (128), the dense and convolution layers
    with a number of input or output channels that is not a multiple.
    """
    sizes = {}
    for policy, model in models.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.weights.h5")
            model.save_weights(path)
            saved = path.stat().st_size
        sizes[policy] = {
            "weights_bytes": sum(weight.nbytes for weight in model.get_weights()),
            "saved_bytes": saved,
        }
    shapes = {
        layer.name: tuple(layer.kernel.shape[-2:])
        for layer in _layers(model)
        if isinstance(layer, keras.layers.Dense | keras.layers.Conv2D)
    }
    return {
        "num_parameters": model.count_params(),
        "sizes": sizes,
        "num_matrix_layers": len(shapes),
        "narrow_layers": {
            str(multiple): {
                name: list(shape) for name, shape in shapes.items() if any(size % multiple for size in shape)
            }
            for multiple in (8, 128)
        },
    }


def _layers(model: keras.Model) -> list[keras.layers.Layer]:
    """List every layer that computes, with the layers of nested models in place of the models."""
    found = []
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            found += _layers(layer)
        elif not isinstance(layer, keras.layers.InputLayer):
            found.append(layer)
    return found
