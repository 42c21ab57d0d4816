"""Provide the functions of `pipeline.engine` on JAX."""

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

# By default, JAX takes three quarters of a GPU's memory, and TensorFlow takes nearly all. With this share, a model that
# fits into memory on TensorFlow should also fit on JAX.
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")

with silent_stderr():
    import jax
    import keras

    with contextlib.suppress(ModuleNotFoundError):
        import tensorflow  # noqa: F401  Keras imports TensorFlow if it is installed, but not silently

# After the silent import of JAX, because this module imports JAX, too.
from pipeline.engine.jax_steps import gradient_step, gradients, try_step  # noqa: F401

BatchNormalization = keras.layers.BatchNormalization  # XLA fuses its operations
# The largest share of an accelerator's memory for images. Steps need far more memory than this, and several processes
# may keep images at once.
MAX_SHARE_OF_IMAGES = 1 / 16
NEARLY_ALL = 0.9  # of the memory that an allocator may take
CUDNN_BYTES = 2**29  # the most that cuDNN takes outside the allocator
COMPILES_SHAPES = True  # JAX compiles a function again for each shape of its inputs


def version() -> dict[str, str]:
    """Return the version of each of the engine's packages, by the package's name."""
    return {"jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}


def kernels() -> str:
    """Return the name of the compiler that makes the kernels."""
    return "XLA"


def round_float32(enabled: bool) -> None:
    """Allow or forbid the device to round the factors of float32 products.

    By default, a GPU that has TF32 rounds the factors to TF32, and a TPU rounds the factors to bfloat16.
    """
    jax.config.update("jax_default_matmul_precision", "default" if enabled else "highest")


def synchronise() -> None:
    """Wait until the device has computed every existing array."""
    jax.block_until_ready(jax.live_arrays())


def accelerators() -> list[dict[str, str]]:
    """List the kind, name and compute capability of each GPU or TPU core that the engine sees.

    The compute capability of a TPU core is empty.
    """
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
    """Keep XLA's compiled programs in `folder`, so that later processes need not compile the same programs again."""
    jax.config.update("jax_compilation_cache_dir", str(folder.absolute()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def feed(batches: Any) -> Any:
    """Return `batches`, a PyDataset, unchanged. Only TensorFlow needs another object."""
    return batches


def keeps_images(num_bytes: int) -> bool:
    """Return whether training images of `num_bytes` stay on the accelerator while a run trains.

    A fast GPU trains on a batch in less time than the host needs to gather and send the batch. The memory that the
    allocator may take decides, not the free memory, so that all variants of a benchmark are fed alike. On a CPU, return
    False, because the images are already in its memory.
    """
    statistics = jax.local_devices()[0].memory_stats() or {}
    return num_bytes <= MAX_SHARE_OF_IMAGES * int(statistics.get("bytes_limit", 0))


def kept_on_device(*arrays: np.ndarray) -> Callable[[np.ndarray], tuple[Any, ...]]:
    """Put `arrays` (N, ...) on the device. Return a function that takes row numbers (n,).

    The function returns these rows of each array (n, ...), in the order of the row numbers.
    """
    kept = jax.device_put(arrays)
    take = jax.jit(lambda kept, rows: tuple(array[rows] for array in kept))
    return lambda rows: take(kept, rows.astype(np.int32))


def reset_peak_memory() -> None:
    """Forget the peak of this process's own memory, which `peak_memory` returns on a CPU.

    The peak of an accelerator's allocator counts from the start of the process, because JAX can't reset that peak.
    """
    own_memory.forget_peak()


def peak_memory() -> tuple[int, str]:
    """Return the peak memory in bytes, and its source.

    The source is `allocator` (the accelerator's) or, on a CPU, `own_share` (`pipeline.machine.own_memory`).
    """
    if statistics := jax.local_devices()[0].memory_stats():
        return int(statistics["peak_bytes_in_use"]), "allocator"
    return own_memory.peak_bytes(), "own_share"


def is_out_of_memory(error: BaseException) -> bool:
    if not isinstance(error, jax.errors.JaxRuntimeError):
        return isinstance(error, MemoryError)
    return "RESOURCE_EXHAUSTED" in str(error) or ("No DNN support for stream" in str(error) and _memory_was_full())


def _memory_was_full() -> bool:
    """Return True if the allocator was near its limit, or if too little GPU memory is free for cuDNN.

    A convolution that then fails because it finds no cuDNN probably fails for lack of memory.
    """
    statistics = jax.local_devices()[0].memory_stats() or {}
    free_bytes = free_gpu_bytes()
    is_near = statistics.get("peak_bytes_in_use", 0) >= NEARLY_ALL * statistics.get("bytes_limit", math.inf)
    return is_near or (free_bytes is not None and free_bytes < CUDNN_BYTES)
