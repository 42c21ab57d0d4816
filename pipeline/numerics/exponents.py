"""Measure the sizes of the gradients in a training step, and the share that float16 flushes (rounds to zero).

As in figure 3 of Micikevicius et al., Mixed Precision Training (arXiv 1710.03740), count activation gradients by
exponent. Find the share that float16 flushes, without and with a loss scale. An activation gradient is a gradient of
the loss with respect to an output of a layer.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import keras
import numpy as np

from pipeline import engine
from pipeline.data.batches import ShuffledBatches
from pipeline.data.datasets import Dataset
from pipeline.numerics.experiments import build_for_steps, take_steps
from pipeline.numerics.facts import DTYPES
from pipeline.study.benchmark import Benchmark

LOWEST, HIGHEST = -60, 20
NUM_STEPS_BEFORE = 10  # so that the measured step is not the very first


def gradient_exponents(benchmark: Benchmark, data: Dataset, loss_scale: float) -> dict[str, Any]:
    """Count the activation gradients of one float32 step on real data by exponent, at the benchmark's batch size.

    Return a dictionary with these values. All shares are in [0, 1], and leave out values that are zero in float32.

    - `exponents`: from `LOWEST` to `HIGHEST`.
    - `counts`: for each of `exponents`, the number of gradients g with the exponent ⌊log₂|g|⌋. Gradients with an
      exponent beyond either end count at that end.
    - `flushed_share`, `flushed_share_scaled`: the share of gradients that float16 rounds to zero, without and with
      `loss_scale`.
    - `overflow_share_scaled`: the share of gradients that become infinite in float16 with `loss_scale`.
    - `forward_flushed_share`: the share of activations (outputs of hidden layers) that float16 rounds to zero.
    """
    model = build_for_steps(benchmark, data, "float32")
    batches = ShuffledBatches(data.train, benchmark.batch_size, seed=0)
    take_steps(model, batches, NUM_STEPS_BEFORE)
    forward, sizes = sizes_of_step(model, *batches[0])
    nonzero = sizes[sizes > 0]
    with np.errstate(over="ignore"):
        scaled = nonzero * np.float32(loss_scale)
    exponents = np.clip(np.floor(np.log2(nonzero)).astype(int), LOWEST, HIGHEST)
    return {
        "exponents": list(range(LOWEST, HIGHEST + 1)),
        "counts": np.bincount(exponents - LOWEST, minlength=HIGHEST - LOWEST + 1).tolist(),
        "loss_scale": loss_scale,
        "flushed_share": flushed_share(nonzero),
        "flushed_share_scaled": flushed_share(scaled),
        "overflow_share_scaled": float(np.isinf(_to_float16(scaled)).mean()),
        "forward_flushed_share": flushed_share(forward[forward > 0]),
    }


def sizes_of_step(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the absolute outputs of the hidden layers, and the absolute gradients with respect to these outputs.

    The gradients are those of the mean loss. Both arrays have the shape (num_values,). The hidden layers of the
    network, which is the last layer of `model`, are those of `_hidden`. If there is none, take the network's output.

    Args:
        images: (N, ...), as `model` takes them.
        labels: integer (N,).
    """
    network = model.layers[-1]
    entry = keras.ops.cast(keras.Model(model.inputs, model.layers[-2].output)([images]), network.inputs[0].dtype)
    tensors = _hidden(network) or network.outputs
    outputs = keras.tree.flatten(keras.Model(network.inputs, tensors)(entry))
    # Add a zero to each output. The gradient with respect to this zero equals the gradient with respect to the output.
    zeros = [keras.Variable(keras.ops.zeros_like(output)) for output in outputs]

    def loss() -> Any:
        probabilities = network(entry, training=True)
        return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(labels, probabilities))

    with contextlib.ExitStack() as stack:
        for tensor, zero in zip(tensors, zeros, strict=True):
            layer = tensor._keras_history.operation
            stack.enter_context(mock.patch.object(layer, "call", _and_add(layer.call, zero)))
        gradients = engine.gradients(loss, zeros)
    return _sizes(outputs), _sizes(gradients)


def _and_add(call: Callable[..., Any], value: keras.Variable) -> Callable[..., Any]:
    return lambda *arguments, **options: call(*arguments, **options) + value


def _sizes(tensors: Iterable[Any]) -> np.ndarray:
    """Return the absolute values of all tensors in one array (num_values,)."""
    sizes: np.ndarray = np.abs(np.concatenate([keras.ops.convert_to_numpy(each).ravel() for each in tensors]))
    return sizes


def _hidden(network: keras.Model) -> list[Any]:
    """List the output of every layer but the last.

    Leave out layers with several outputs, layers that are called twice, and outputs that are not floats.
    """
    nodes = [node for depth in network._nodes_by_depth.values() for node in depth]  # `layers` hides second calls
    calls = Counter(node.operation for node in nodes)
    tensors = [
        node.output_tensors[0]
        for node in nodes
        if not node.is_input and calls[node.operation] == len(node.output_tensors) == 1
    ]
    return [tensor for tensor in tensors if tensor.dtype in DTYPES and tensor is not network.outputs[0]]


def flushed_share(values: np.ndarray) -> float:
    """Return the share, in [0, 1], of `values` that float16 rounds to zero. All `values` are positive."""
    return float((_to_float16(values) == 0).mean())


def _to_float16(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float16)
