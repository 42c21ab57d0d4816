"""A benchmark's model, built under a policy and compiled as its recipe says."""

import hashlib
from collections.abc import Sequence

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
import numpy as np

from pipeline import models
from pipeline.benchmark import Benchmark
from pipeline.precision import expected_dtypes, scaled
from pipeline.variant import LossScale

OPTIMIZERS = {"adam": keras.optimizers.Adam, "rmsprop": keras.optimizers.RMSprop}


def build_model(
    benchmark: Benchmark, policy: str, num_classes: int, num_channels: int, seed: int
) -> tuple[keras.Model, str]:
    """The benchmark's model under `policy`, and the SHA-256 of its initial weights in float32.

    The weights depend on the seed alone: a model whose variables are 16 bits wide gets the float32 ones, rounded.
    """

    def build(policy: str) -> keras.Model:
        keras.utils.set_random_seed(seed)
        previous = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            return models.build(benchmark, num_classes, num_channels, seed)
        finally:
            keras.config.set_dtype_policy(previous)

    model = build(policy)
    reference = model if expected_dtypes(policy).variable == "float32" else build("float32")
    weights = reference.get_weights()
    if reference is not model:
        model.set_weights(weights)
    return model, weights_digest(weights)


def weights_digest(weights: Sequence[np.ndarray]) -> str:
    """The SHA-256 of `weights`, bit for bit."""
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(np.ascontiguousarray(weight).tobytes())  # bfloat16 has no buffer of its own
    return digest.hexdigest()


def compile_model(model: keras.Model, benchmark: Benchmark, loss_scale: LossScale, jit_compile: bool) -> None:
    """Compiles `model` as the recipe says, with every variable in place before the first step.

    Keras traces the training function a second time when its first call creates variables.
    """
    optimizer = OPTIMIZERS[benchmark.optimizer.name](learning_rate=benchmark.optimizer.learning_rate)
    model.compile(
        optimizer=scaled(optimizer, loss_scale),
        auto_scale_loss=False,
        loss="sparse_categorical_crossentropy",
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=jit_compile,
        steps_per_execution=benchmark.steps_per_execution,
    )
    model.optimizer.build(model.trainable_variables)
    engine.share_gradients(model)
