"""Find facts about 16-bit arithmetic: dtypes, ranges, sums, loss scaling and sizes in bytes.

Only `numpy_speedups` measures time.
"""

import timeit
from typing import Any

import keras
import ml_dtypes
import numpy as np

from pipeline.data.datasets import Dataset
from pipeline.numerics.experiments import build
from pipeline.numerics.facts import DTYPES, GROWTH_STEPS, KERAS_POLICIES, NO_GROWTH, TWICE, Value
from pipeline.study.benchmark import Benchmark
from pipeline.training.precision import loss_scale_now, steps_taken

Facts = dict[str, Value]


def range_facts() -> Facts:
    """Return facts about each dtype: the engine's squares, roundings and softmax, bytes per value, the largest value.

    Also return, for each number of units in `TWICE`, how many times as many parameters a dense model has with twice
    the units.
    """
    facts: Facts = {}
    for dtype in DTYPES:
        large, small = (_in_float32(keras.ops.square(keras.ops.cast(value, dtype))) for value in (256.0, 0.00001))
        parts = _in_float32(keras.ops.softmax(keras.ops.cast([0.0, -20.0], dtype)))
        found: Facts = {
            "square_of_256": str(float(large)),
            "square_of_1e-05": str(float(small)),
            "smallest_square_is_zero": float(small) == 0.0,
            "rounded_4e-08": str(_rounded(4e-08, dtype)),
            "rounded_65519": str(_rounded(65519.0, dtype)),
            "softmax_of_minus_20_is_zero": float(parts[1]) == 0.0,
            "bytes_per_value": keras.ops.convert_to_numpy(keras.ops.zeros((1,), dtype)).nbytes,
            "largest": float(ml_dtypes.finfo(dtype).max),
        }
        facts |= {f"{name}.{dtype}": value for name, value in found.items()}
    for units in TWICE:
        ratio = dense_parameters(2 * units) / dense_parameters(units)
        facts[f"parameters_of_twice_the_units.{units}"] = round(ratio, 2)
    return facts


def _in_float32(tensor: Any) -> np.ndarray:
    """Return the values of `tensor` as a float32 array. float32 holds every value of the 16-bit dtypes exactly."""
    found: np.ndarray = keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))
    return found


def _rounded(value: Any, dtype: str) -> float:
    """Have the engine round `value`, as a float32 number, to `dtype`."""
    return float(_in_float32(keras.ops.cast(keras.ops.convert_to_tensor(np.float32(value)), dtype)))


def accumulation_facts() -> Facts:
    """Multiply 16-bit matrices with the engine, and return the dtype in which the engine adds up the products.

    Every factor is a multiple of 1/16 between 1 and 2, so float32 holds every product and every partial sum exactly,
    whatever the order of the sum. A sum in float32 is then rounded to one of the two 16-bit values around the exact
    sum. If the engine keeps sums in 16 bits, some results are further off, even if each sum is split among many lanes.
    """
    rng = np.random.default_rng(0)
    left, right = (1 + rng.integers(0, 16, shape) / 16 for shape in ((64, 4096), (4096, 64)))
    facts: Facts = {}
    for dtype in DTYPES[1:]:
        product = keras.ops.matmul(*(keras.ops.cast(factor.astype("float32"), dtype) for factor in (left, right)))
        exactly = ends_beside(_in_float32(product), left @ right, dtype)
        facts[f"products_accumulate_in.{dtype}"] = "float32" if exactly else dtype
    return facts


def ends_beside(found: np.ndarray, exact: np.ndarray, dtype: str) -> bool:
    """Return whether each value of `found` is close to the positive value in the same place of `exact`.

    Close means: less than one unit in the last place of `dtype` apart.
    """
    place = 2.0 ** np.floor(np.log2(exact)) * float(ml_dtypes.finfo(dtype).eps)
    return bool((np.abs(found - exact) < place).all())


def dense_parameters(units: int) -> int:
    """Return the dense model's number of parameters on MNIST.

    The model has two layers of `units` units and one of ten units, all with biases.
    """
    return (28 * 28 + 1) * units + (units + 1) * units + (units + 1) * 10


def numpy_speedups() -> list[float]:
    """Return nine speedups: NumPy's time to divide and add in float32, divided by its time in float16.

    The two dtypes take turns. The arrays have the shape of a batch of MNIST in the published sources (README.md). The
    first of ten tries is left out, because it also obtains the memory.
    """

    def seconds(dtype: str) -> float:
        values = inputs[dtype]
        return timeit.timeit(lambda: values / values.dtype.type(255) + values, number=1)

    inputs = {dtype: np.ones((8192, 784), dtype) for dtype in ("float32", "float16")}
    return [seconds("float32") / seconds("float16") for _ in range(10)][1:]


def policy_facts() -> Facts:
    """Return the dtypes of a small model under each of `KERAS_POLICIES`, and the kind of Keras's default loss scale.

    Every layer but the last follows the policy. The last layer returns float32.
    """
    facts: Facts = {}
    for policy in KERAS_POLICIES:
        previous = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            hidden, softmax = keras.layers.Dense(8, activation="relu"), keras.layers.Activation("softmax")
            last = keras.layers.Activation("linear", dtype="float32")
            model = keras.Sequential([keras.Input((4,)), hidden, softmax, last])
            model.compile(keras.optimizers.SGD(), "sparse_categorical_crossentropy")
        finally:
            keras.config.set_dtype_policy(previous)
        model.optimizer.build(model.trainable_variables)
        dtypes = {
            "compute": hidden.compute_dtype,
            "variable": hidden.kernel.dtype,
            "input": model.inputs[0].dtype,
            "hidden": hidden.output.dtype,
            "softmax": softmax.output.dtype,
            "output": model.outputs[0].dtype,
        }
        facts |= {f"{name}_dtype.{policy}": str(dtype) for name, dtype in dtypes.items()}
        facts[f"default_loss_scale.{policy}"] = "none" if loss_scale_now(model.optimizer) is None else "dynamic"
    return facts


def loss_scale_facts() -> Facts:
    """Take `GROWTH_STEPS` steps with a dynamic loss scale, then one that overflows. Return the changes of the scale.

    The model returns its input times its weight, and the loss is the output. So the gradient of each step is the input.
    """
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.001))  # in float32, Keras adds none
    model.compile(optimizer, lambda _, outputs: outputs, steps_per_execution=GROWTH_STEPS - 1)

    def scale_after(num_steps: int, gradient: float) -> float:
        inputs = np.full((num_steps, 1), gradient, np.float32)
        model.fit(inputs, inputs, batch_size=1, verbose=0)
        return loss_scale_now(optimizer) or 0.0

    optimizer.build(model.trainable_variables)
    start = loss_scale_now(optimizer) or 0.0
    before, after = scale_after(GROWTH_STEPS - 1, 1.0), scale_after(1, 1.0)
    num_steps, (weights,) = steps_taken(optimizer), model.get_weights()
    at_overflow = scale_after(1, np.inf)
    return {
        "loss_scale.start": start,
        "loss_scale.growth_steps": GROWTH_STEPS if (before, after) == (start, 2 * start) else NO_GROWTH,
        "loss_scale.growth_factor": after / before,
        "loss_scale.factor_at_overflow": at_overflow / after,
        "loss_scale.overflow_is_skipped": bool((model.get_weights()[0] == weights).all())
        and steps_taken(optimizer) == num_steps,
    }


def weights_ratio(benchmark: Benchmark, data: Dataset, policy: str) -> float:
    """Return the bytes of the model's weights under `policy`, divided by their bytes in float32."""
    weights = build(benchmark, data, policy).get_weights()
    return float(sum(weight.nbytes for weight in weights) / sum(4 * weight.size for weight in weights))
