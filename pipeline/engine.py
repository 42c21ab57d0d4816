"""The few things Keras leaves to the engine underneath it.

Import this module before Keras: it loads the engine without its start-up chatter.
"""

import contextlib
import os
import resource
import sys
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # so that an index means the same GPU to NVML
os.environ["KERAS_BACKEND"] = "tensorflow"


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Sends file descriptor 2 to nowhere: TensorFlow's libraries write there before any log level counts."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


with _silent_stderr():
    import tensorflow as tf

    tf.config.list_physical_devices()


def set_tf32(enabled: bool) -> None:
    """Lets float32 matrix products round their inputs to TensorFloat-32, or forbids it."""
    tf.config.experimental.enable_tensor_float_32_execution(enabled)


def synchronise() -> None:
    """Returns when every device has finished what it was given."""
    tf.test.experimental.sync_devices()


def accelerators() -> list[dict[str, str]]:
    """Each GPU's name and compute capability, as the engine sees them."""
    found = []
    for device in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        capability = ".".join(str(part) for part in details.get("compute_capability", ()))
        found.append({"name": details.get("device_name", device.name), "compute_capability": capability})
    return found


def reset_peak_memory() -> None:
    """Forgets the allocator's peak so far; a process's peak resident set cannot be reset."""
    if tf.config.list_logical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")


def peak_memory() -> tuple[int, str]:
    """Bytes, and what was measured: the accelerator's allocator, or the resident set of this process."""
    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"], "allocator"
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "resident_set"


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError | tf.errors.ResourceExhaustedError)
