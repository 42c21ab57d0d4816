"""Provide the functions of `pipeline.engine` on TensorFlow."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.engine.loading import silent_stderr, without
from pipeline.machine import own_memory

# Hide packages that no run needs. They serve TensorFlow Lite, Keras's plots and Keras's data adapters, and would take a
# second to import and 200 MB of memory.
with silent_stderr(), without("IPython", "jax", "matplotlib", "pandas", "pyarrow", "torch"):
    import keras
    import tensorflow as tf

    tf.config.list_physical_devices()

    from tensorflow.python.util._pywrap_util_port import IsMklEnabled  # the public API lacks it

tf.get_logger().setLevel("ERROR")  # no warnings of retracing, which is intended and is not timed


COMPILES_SHAPES = False
NUM_BATCHES_AHEAD = 2


class BatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """Normalize images (N, H, W, C) as Keras's layer does, but with one kernel forward and one backward.

    Keras 3's layer casts images to float32 and runs a dozen operations. The published sources (listed in README.md)
    used Keras 2, whose layer ran the fused kernel that is used here. The kernel takes and returns 16-bit or float32
    tensors, and computes in float32. The moving variance is an average of the batches' own variances, as in Keras 3.
    Keras 2 averaged the kernel's estimates of the population's variance, which include Bessel's correction.

    The layer has the arguments, names and weights of Keras's layer. It supports only the uses in this project: channels
    come last, `scale` and `center` are true, no layer is frozen, and there are no masks.
    """

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        gamma, beta, mean, variance = (
            keras.ops.cast(variable, "float32")  # the kernel takes float32 under every policy
            for variable in (self.gamma, self.beta, self.moving_mean, self.moving_variance)
        )
        learns = bool(training)
        outputs, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=gamma,
            offset=beta,
            mean=mean,
            variance=variance,
            epsilon=self.epsilon,
            is_training=learns,
        )
        if learns:
            num_values = tf.cast(tf.size(inputs) // inputs.shape[-1], tf.float32)
            batch_variance *= (num_values - 1) / num_values
            for variable, old, new in (
                (self.moving_mean, mean, batch_mean),
                (self.moving_variance, variance, batch_variance),
            ):
                variable.assign(old * self.momentum + new * (1 - self.momentum))
        return outputs


def version() -> dict[str, str]:
    """Return the version of each of the engine's packages, by the package's name."""
    return {"tensorflow": tf.__version__}


def kernels() -> str:
    """Return the name of the library whose kernels are used: CUDA on a GPU, oneDNN or Eigen on a CPU."""
    if tf.config.list_physical_devices("GPU"):
        return "CUDA"
    return "oneDNN" if IsMklEnabled() else "Eigen"


def synchronise() -> None:
    """Wait until all devices have finished their work."""
    tf.test.experimental.sync_devices()


def round_float32(enabled: bool) -> None:
    """Allow or forbid the device to round the factors of float32 products.

    By default, a GPU that has TF32 rounds the factors to TF32.
    """
    tf.config.experimental.enable_tensor_float_32_execution(enabled)


def accelerators() -> list[dict[str, str]]:
    """List the kind, name and compute capability of each GPU that the engine sees."""
    found = []
    for device in tf.config.get_visible_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        capability = ".".join(str(part) for part in details.get("compute_capability", ()))
        name = details.get("device_name", device.name)
        found.append({"kind": "gpu", "name": name, "compute_capability": capability})
    return found


def gpu_place() -> int | None:
    """Return the index, from 0, of the run's GPU among the GPUs that CUDA shows, or None without a GPU."""
    gpus = tf.config.get_visible_devices("GPU")
    return int(gpus[0].name.rpartition(":")[2]) if gpus else None


def keep_compiled(folder: Path) -> None:
    """Do nothing: TensorFlow keeps no compiled step from one process to the next."""


def feed(batches: Any) -> Any:
    """Return a tf.data pipeline that feeds `batches`, a PyDataset of arrays or tuples of arrays, to Keras in order.

    Keras would turn a PyDataset into a generator. TensorFlow's generators make the C library return free memory to the
    system. Each step must then map every large tensor again, and takes 50 % longer on a CPU. The size of the batch
    dimension stays undefined, so that only the first batch is traced. Autotuning is off, because its thread sleeps for
    longer and longer times, and freeing the pipeline would wait seconds until the thread wakes up.
    """
    first = batches[0]
    arrays = first if isinstance(first, tuple) else (first,)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # slow, with nothing to convert
    def batch(index: Any) -> Any:
        tensors = tf.numpy_function(lambda index: batches[int(index)], [index], [array.dtype for array in arrays])
        tensors = [
            tf.ensure_shape(tensor, (None, *array.shape[1:])) for tensor, array in zip(tensors, arrays, strict=True)
        ]
        return tuple(tensors) if isinstance(first, tuple) else tensors[0]

    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.Dataset.range(len(batches)).map(batch).prefetch(NUM_BATCHES_AHEAD).with_options(options)


def keeps_images(num_bytes: int) -> bool:  # noqa: ARG001  used on JAX
    """Return False: the pipeline from `feed` gathers batches on the host."""
    return False


def gradient_step(model: Any) -> tuple[Callable[..., Any], Callable[[], None]]:
    """Return a function that takes a training step, and a function that does nothing.

    The step takes images (N, ...) and labels (N,). It returns the mean loss before scaling and the number of correctly
    classified examples, both still on the device. XLA compiles the step if the model was compiled with `jit_compile`.
    On JAX, the second function updates the model after the steps. On TensorFlow, each step already does so.

    Args:
        model: a Keras model on which `compile` was called.
    """

    @tf.function(jit_compile=model.jit_compile)  # type: ignore[untyped-decorator]
    def step(images: Any, labels: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            probabilities = model(images, training=True)
            loss = model.compute_loss(y=labels, y_pred=probabilities)
            scaled = model.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        # The optimizer unscales the gradients. With a dynamic loss scale, it skips the step and halves the scale if the
        # gradients are not finite.
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        right = tf.argmax(probabilities, axis=1, output_type=labels.dtype) == labels
        return loss, tf.reduce_sum(tf.cast(right, tf.int32))

    return step, lambda: None


def gradients(loss: Callable[[], Any], variables: Sequence[Any]) -> list[Any]:
    """Return the gradients of `loss()`, a scalar, with respect to `variables`."""
    with tf.GradientTape() as tape:
        value = loss()
    return list(tape.gradient(value, list(variables), unconnected_gradients="zero"))


def try_step(model: Any, images: Any, labels: Any) -> None:
    """Take a training step of a compiled Keras model, to find errors. Skip the tracing, which takes seconds."""

    def loss() -> Any:
        return model.optimizer.scale_loss(model.compute_loss(y=labels, y_pred=model(images, training=True)))

    found = gradients(loss, model.trainable_variables)
    model.optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))


def reset_peak_memory() -> None:
    """Forget the peak so far, of the GPU's allocator and of this process's own memory."""
    if tf.config.list_logical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")
    own_memory.forget_peak()


def peak_memory() -> tuple[int, str]:
    """Return the peak memory in bytes, and its source.

    The source is `allocator` (the GPU's) or, on a CPU, `own_share` (`pipeline.machine.own_memory`).
    """
    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"], "allocator"
    return own_memory.peak_bytes(), "own_share"


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError | tf.errors.ResourceExhaustedError)
