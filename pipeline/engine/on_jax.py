"""Do on JAX what Keras leaves to its engine. A step returns values, to be assigned to variables later."""

import contextlib
import importlib.metadata
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.engine.loading import silent_stderr
from pipeline.machine import own_memory
from pipeline.machine.hardware import free_gpu_bytes

# By default JAX takes three quarters of a GPU's memory and TensorFlow nearly all. What fits on one engine should fit
# on the other.
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")

with silent_stderr():
    import jax
    import keras

    with contextlib.suppress(ModuleNotFoundError):
        import tensorflow  # noqa: F401  which Keras imports if it is installed

# Imported once JAX has loaded silently.
from pipeline.engine.jax_steps import gradient_step, gradients, try_step  # noqa: F401

BatchNormalization = keras.layers.BatchNormalization  # XLA fuses it
MAX_SHARE_OF_IMAGES = 1 / 16  # of an accelerator's memory: steps need far more, even if several processes keep images
NEARLY_ALL = 0.9  # of what an allocator may take
CUDNN_BYTES = 2**29  # the most that cuDNN takes outside the allocator
COMPILES_SHAPES = True  # every function is compiled again for each shape, and none runs uncompiled


def version() -> dict[str, str]:
    """Return the engine's packages and their versions."""
    return {"jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}


def kernels() -> str:
    """Name the compiler of the kernels that compute here."""
    return "XLA"


def round_float32(enabled: bool) -> None:
    """Allow or forbid the device to round the factors of float32 products.

    By default, a GPU that has TF32 rounds them to TF32, and a TPU to bfloat16.
    """
    jax.config.update("jax_default_matmul_precision", "default" if enabled else "highest")


def synchronise() -> None:
    """Wait until every existing array has been computed."""
    jax.block_until_ready(jax.live_arrays())


def accelerators() -> list[dict[str, str]]:
    """List the kind, name and compute capability of each GPU or TPU core that the engine sees."""
    return [
        {
            "kind": device.platform,
            "name": device.device_kind,
            "compute_capability": str(getattr(device, "compute_capability", "")),
        }
        for device in jax.local_devices()
        if device.platform != "cpu"
    ]


def gpu_place() -> int | None:
    """Return the index, from 0, of the run's GPU among the GPUs that CUDA shows, or None without a GPU."""
    device = jax.local_devices()[0]
    return int(device.local_hardware_id) if device.platform == "gpu" else None


def keep_compiled(folder: Path) -> None:
    """Keep XLA's compiled programs in `folder`, so that the next process need not compile them again."""
    jax.config.update("jax_compilation_cache_dir", str(folder.absolute()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def feed(batches: Any) -> Any:
    """Return the object from which Keras reads `batches`: the PyDataset itself."""
    return batches


def keeps_images(num_bytes: int) -> bool:
    """Return whether training images of `num_bytes` stay on the accelerator while a run trains.

    A fast GPU trains on a batch in less time than the host needs to gather and send it. The device's total memory
    decides, not its free memory, so that all variants of a benchmark are fed alike. On a CPU, the images are already
    where they are used.
    """
    statistics = jax.local_devices()[0].memory_stats() or {}
    return num_bytes <= MAX_SHARE_OF_IMAGES * int(statistics.get("bytes_limit", 0))


def kept_on_device(*arrays: np.ndarray) -> Callable[[np.ndarray], tuple[Any, ...]]:
    """Put arrays (N, ...) on the device. Return a function from row numbers (n,) to these rows of each array."""
    kept = jax.device_put(arrays)
    take = jax.jit(lambda kept, rows: tuple(array[rows] for array in kept))
    return lambda rows: take(kept, rows.astype(np.int32))


def reset_peak_memory() -> None:
    """On a CPU, forget the peak so far. The peak of JAX's allocator counts from the start and can't be reset."""
    own_memory.forget_peak()


def peak_memory() -> tuple[int, str]:
    """Return the peak in bytes, and its source: the accelerator's allocator, or this process's own memory."""
    if statistics := jax.local_devices()[0].memory_stats():
        return int(statistics["peak_bytes_in_use"]), "allocator"
    return own_memory.peak_bytes(), "own_share"


def is_out_of_memory(error: BaseException) -> bool:
    if not isinstance(error, jax.errors.JaxRuntimeError):
        return isinstance(error, MemoryError)
    return "RESOURCE_EXHAUSTED" in str(error) or ("No DNN support for stream" in str(error) and _memory_was_full())


def _memory_was_full() -> bool:
    """Return whether lack of memory explains why a convolution found no cuDNN.

    It does if the allocator was near its limit or too little GPU memory was free for cuDNN.
    """
    statistics = jax.local_devices()[0].memory_stats() or {}
    free_bytes = free_gpu_bytes()
    is_near = statistics.get("peak_bytes_in_use", 0) >= NEARLY_ALL * statistics.get("bytes_limit", math.inf)
    return is_near or (free_bytes is not None and free_bytes < CUDNN_BYTES)
