"""JAX underneath Keras: a step is a function from state to state, so what TensorFlow does in place is assigned here."""

import contextlib
import functools
import importlib.metadata
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pipeline.engine import processes
from pipeline.engine.loading import silent_stderr
from pipeline.errors import InputError

with silent_stderr():
    import jax
    import keras

    with contextlib.suppress(ModuleNotFoundError):
        import tensorflow  # noqa: F401  which Keras imports where it is installed

from pipeline.engine.activations import activation_gradients  # noqa: F401  once JAX is loaded in silence

COMPILES_SHAPES = True  # every function is compiled anew for each shape, and none runs uncompiled


def join_processes() -> tuple[int, int]:
    """Joins the processes that one launcher started for one run; which of them this is, and how many there are.

    Slurm's tasks of a job step are found by JAX; elsewhere the environment variables KERAS_DISTRIBUTION_JOB_ADDRESSES,
    …_NUM_PROCESSES and …_PROCESS_ID tell, as Keras documents them. Before anything else is asked of JAX.

    Raises:
        InputError: the machine of the first process can't be found.
    """
    if processes.are_slurm_tasks():
        first = processes.slurm_hosts()[0]
        processes.expect([first], os.environ["SLURM_PROCID"], os.environ["SLURM_STEP_NUM_TASKS"])
        jax.distributed.initialize(initialization_timeout=processes.PATIENCE_SECONDS)
    elif "KERAS_DISTRIBUTION_NUM_PROCESSES" in os.environ:
        first, index, count = (
            os.environ[f"KERAS_DISTRIBUTION_{name}"] for name in ("JOB_ADDRESSES", "PROCESS_ID", "NUM_PROCESSES")
        )
        first = first.partition(",")[0]
        processes.expect([first], index, count)
        # What Keras would call, with a patience of our own.
        jax.distributed.initialize(first, int(count), int(index), initialization_timeout=processes.PATIENCE_SECONDS)
    return jax.process_index(), jax.process_count()


def version() -> dict[str, str]:
    """The engine's packages and their versions."""
    return {"jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}


def end_process() -> NoReturn:
    """Ends this process; JAX takes its leave of other processes on the way."""
    sys.exit()


def set_tf32(enabled: bool) -> None:
    """Lets float32 matrix products round their inputs to TensorFloat-32, or asks for the highest precision.

    A TPU multiplies in bfloat16 unless it is asked for the highest, and has no TF32.

    Raises:
        InputError: TF32 is asked for on a TPU.
    """
    if enabled and jax.default_backend() == "tpu":
        raise InputError("tf32: a TPU has no TF32. Leave such variants out of the study.")
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if enabled else "highest")


def synchronise() -> None:
    """Returns when every array there is has been computed."""
    jax.block_until_ready(jax.live_arrays())


def accelerators() -> list[dict[str, str]]:
    """Kind, name and compute capability of each GPU or TPU core, as the engine sees them."""
    return [
        {
            "kind": device.platform,
            "name": device.device_kind,
            "compute_capability": str(getattr(device, "compute_capability", "")),
        }
        for device in jax.local_devices()
        if device.platform != "cpu"
    ]


def keep_compiled(folder: Path) -> None:
    """Keeps what XLA compiles in `folder`, so that the next process need not compile it again."""
    jax.config.update("jax_compilation_cache_dir", str(folder.absolute()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@contextlib.contextmanager
def data_parallel(num_devices: int) -> Iterator[None]:
    """What is built and trained inside is so on `num_devices` devices, a share of each batch on each.

    Raises:
        InputError: there are fewer, or several processes have more.
    """
    devices = keras.distribution.list_devices()
    if num_devices > len(devices) or (jax.process_count() > 1 and num_devices < len(devices)):
        where = f"in {jax.process_count()} processes" if jax.process_count() > 1 else "here"
        raise InputError(f"devices: {num_devices} asked for, and JAX sees {len(devices)} {where}.")
    if num_devices == 1:
        yield
        return
    keras.distribution.set_distribution(
        keras.distribution.DataParallel(devices=devices[:num_devices], auto_shard_dataset=False)
    )
    try:
        yield
    finally:
        keras.distribution.set_distribution(None)


def share_gradients(model: Any) -> None:
    """XLA sums the gradients of all devices, wherever they are."""


def average_epoch(model: Any, logs: dict[str, Any]) -> None:
    """Metrics and moving averages are those of the whole batch from the start."""


def feed(batches: Any) -> Any:
    """What Keras reads `batches` from: the PyDataset itself."""
    return batches


def predict(model: Any, batches: Any) -> np.ndarray:
    """What `model` makes of `batches`, a PyDataset of images (N, ...), all in one array.

    Keras can't fetch what is spread over processes. Each of several computes all of it, from its copy of the weights.
    """
    if jax.process_count() == 1:
        return np.asarray(model.predict(batches, verbose=0))
    weights = [
        [variable.value.addressable_data(0) for variable in part]
        for part in (model.trainable_variables, model.non_trainable_variables)
    ]
    return np.concatenate([_predict_alone(model, *weights, batches[index]) for index in range(len(batches))])


@functools.partial(jax.jit, static_argnums=0)
def _predict_alone(model: Any, trainable: Any, others: Any, images: Any) -> Any:
    return model.stateless_call(trainable, others, images, training=False)[0]


def gradient_step(model: Any) -> tuple[Callable[..., Any], Callable[[], None]]:
    """One training step of a compiled Keras model, written out; and what brings the model up to date after some.

    The step takes images (N, ...) and labels (N,), and returns the mean loss before scaling and the number of examples
    that were right, both still on the device. Between steps the model's values are in a state that each step takes
    over, as in Keras's own loop.
    """
    optimizer = model.optimizer
    parts = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)

    def scaled_loss(trainable: Any, others: Any, optimizer_values: Any, images: Any, labels: Any) -> Any:
        probabilities, others = model.stateless_call(trainable, others, images, training=True)
        loss = model.compute_loss(y=labels, y_pred=probabilities)
        right = (probabilities.argmax(axis=1) == labels).sum()
        return _scaled(optimizer, optimizer_values, loss), (others, loss, right)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, images: Any, labels: Any) -> Any:
        trainable, others, optimizer_values = state
        derive = jax.grad(scaled_loss, has_aux=True)
        gradients, (others, loss, right) = derive(trainable, others, optimizer_values, images, labels)
        # This unscales them; a dynamic scale leaves a step out whose gradients are not finite, and is halved.
        trainable, optimizer_values = optimizer.stateless_apply(optimizer_values, gradients, trainable)
        return (trainable, others, optimizer_values), loss, right

    state: Any = None

    def train(images: Any, labels: Any) -> tuple[Any, Any]:
        nonlocal state
        state, loss, right = step(state or tuple(_values(part) for part in parts), images, labels)
        return loss, right

    def settle() -> None:
        nonlocal state
        for part, values in zip(parts, state, strict=True):
            _assign(part, values)
        state = None

    return train, settle


def apply_step(optimizer: Any, variable: Any) -> Any:
    """A compiled function that applies one gradient, a NumPy array of the variable's shape, through `optimizer`."""

    @jax.jit
    def step(optimizer_values: Any, value: Any, gradient: Any) -> Any:
        scaled = gradient * _scaled(optimizer, optimizer_values, 1.0)
        return optimizer.stateless_apply(optimizer_values, [scaled], [value])

    def apply(gradient: Any) -> None:
        values, optimizer_values = step(_values(optimizer.variables), variable.value, gradient)
        _assign([variable], values)
        _assign(optimizer.variables, optimizer_values)

    return apply


def _scaled(optimizer: Any, optimizer_values: Any, loss: Any) -> Any:
    """The loss times the loss scale that `optimizer` has among these values of its variables."""
    with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, optimizer_values, strict=True))):
        return optimizer.scale_loss(loss)


def _values(variables: Sequence[Any]) -> list[Any]:
    return [variable.value for variable in variables]


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def reset_peak_memory() -> None:
    """JAX's allocator can't forget its peak: it counts from the start of the process."""


def peak_memory() -> tuple[int, str]:
    """Bytes, and what was measured: the accelerator's allocator, or the resident set of this process."""
    if statistics := jax.local_devices()[0].memory_stats():
        return int(statistics["peak_bytes_in_use"]), "allocator"
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "resident_set"


def is_out_of_memory(error: BaseException) -> bool:
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    return exhausted or isinstance(error, MemoryError)
