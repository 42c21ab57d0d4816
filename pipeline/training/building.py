"""Build a benchmark's model under a policy, and compile the model as the recipe says."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import models  # first, to silence the engine's start-up messages

# isort: split
import keras
import numpy as np

from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark
from pipeline.study.policies import POLICIES
from pipeline.study.variant import Variant, expected_dtypes
from pipeline.training.precision import scaled


class OwnPolicy(keras.DTypePolicy):  # type: ignore[misc]
    """Compute in one dtype and keep variables in another, for a pair of dtypes that no policy of Keras has."""

    def _parse_name(self, name: str) -> tuple[str, str]:
        return expected_dtypes(name)[:2]


def build_model(
    benchmark: Benchmark,
    policy: str,
    num_classes: int,
    num_channels: int,
    seed: int,
    float32_layers: Sequence[str] = (),
) -> tuple[keras.Model, str]:
    """Return the benchmark's model under `policy`, and the SHA-256 of its initial weights in float32.

    With a given seed, every policy starts from the same float32 weights. 16-bit variables get these weights rounded.
    The digest leaves out variables that Keras adds when it converts layers, such as the scales of float8.

    Args:
        float32_layers: names or kinds of layers that compute in float32, with all layers inside them.

    Raises:
        InputError: the model can't be built, or has no layer of a name or kind in `float32_layers`.
    """

    def build(name: str) -> keras.Model:
        previous = keras.config.dtype_policy()
        keras.utils.clear_session(free_memory=False)  # count layer names from the start, as in a new process
        keras.utils.set_random_seed(seed)
        keras.config.set_dtype_policy(POLICIES[name].keras or OwnPolicy(name))
        try:
            return models.build(benchmark, num_classes, num_channels, seed)
        finally:
            keras.config.set_dtype_policy(previous)

    row = POLICIES[policy]
    model = build(policy)
    reference = model if row.keeps_float32 else build("float32")
    weights = reference.get_weights()
    if reference is not model:
        model.set_weights(weights)
    if row.layers:
        kinds = tuple(getattr(keras.layers, kind) for kind in row.layers)
        model.quantize(row.products, filters=lambda layer: isinstance(layer, kinds))
    keep_in_float32(model, float32_layers)
    return model, weights_digest(weights)


def keep_in_float32(model: keras.Model, names: Sequence[str]) -> None:
    """Let the layers of these names or kinds compute in float32, with all layers inside them.

    The weights of `model` must be float32 already. Keras's `DTypePolicyMap` would silently miss layers without weights,
    and layers of nested models.

    Raises:
        InputError: `model` has no layer of one of these names or kinds. The message lists the kinds in `model`.
    """
    layers = list(model._flatten_layers(include_self=False))
    for name in names:
        chosen = [layer for layer in layers if name in (layer.name, type(layer).__name__)]
        if not chosen:
            kinds = sorted({type(layer).__name__ for layer in layers})
            raise InputError(
                f"float32_layers: the model has no layer or kind of layer {name}. Its kinds are {', '.join(kinds)}"
            )
        for layer in chosen:
            for part in layer._flatten_layers():
                part.dtype_policy = "float32"


def weights_digest(weights: Sequence[np.ndarray]) -> str:
    """Return the SHA-256 of the bytes of all `weights`, one array after the other."""
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(np.ascontiguousarray(weight).tobytes())  # Python's buffers can't hold bfloat16
    return digest.hexdigest()


def compile_model(model: keras.Model, benchmark: Benchmark, variant: Variant) -> None:
    """Compile `model` as the recipe and the variant say, and create the optimizer's variables.

    If the first step had to create these variables, Keras would trace the training function twice.

    Raises:
        InputError: the optimizer does not take the recipe's arguments, or XLA is used and can't compile a layer.
    """
    by_xla = variant.xla or keras.backend.backend() == "jax"
    if by_xla:
        check_compiles(model)
    recipe = benchmark.optimizer
    learning_rate = _learning_rate(benchmark, variant)
    optimizer = make_optimizer(recipe.name, learning_rate, recipe.arguments)
    model.compile(
        optimizer=scaled(optimizer, variant.loss_scale),
        auto_scale_loss=False,
        loss="sparse_categorical_crossentropy",
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=by_xla,
        steps_per_execution=benchmark.steps_per_execution,
    )
    model.optimizer.build(model.trainable_variables)


def check_compiles(model: keras.Model) -> None:
    """Raise `InputError` if XLA can't compile a layer of `model`. Keras would only warn, and train without XLA."""
    layers = [layer.name for layer in model._flatten_layers() if not layer.supports_jit]
    if layers:
        raise InputError(
            f"xla: XLA can't compile {', '.join(layers)}. Leave these layers out, or the variants with XLA."
        )


def make_optimizer(name: str, learning_rate: Any, arguments: Mapping[str, Any]) -> keras.optimizers.Optimizer:
    """Return a new optimizer of Keras.

    Args:
        name: the name of the optimizer's class, in lower case.
        learning_rate: a number, or a Keras schedule.
        arguments: further arguments of the class.

    Raises:
        InputError: the optimizer does not take `arguments`.
    """
    kind = {key.lower(): value for key, value in vars(keras.optimizers).items()}[name]
    try:
        return kind(learning_rate=learning_rate, **arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"optimizer.arguments: {name} refuses {dict(arguments)}: {error}") from None


def _learning_rate(benchmark: Benchmark, variant: Variant) -> Any:
    """Return the learning rate of `variant` under the recipe's rule: a number, or a Keras schedule over the steps."""
    rule, rate = benchmark.learning_rate_rule, benchmark.optimizer.learning_rate * variant.learning_rate_multiplier
    steps_per_epoch = benchmark.steps_per_epoch(variant.batch_multiplier)
    num_warmup = rule.num_warmup_epochs * variant.epoch_multiplier * steps_per_epoch
    if rule.decay == "cosine":
        start = {"initial_learning_rate": 0.0, "warmup_target": rate, "warmup_steps": num_warmup}
        start = start if num_warmup else {"initial_learning_rate": rate}
        num_decaying = benchmark.num_epochs_of(variant) * steps_per_epoch - num_warmup
        return keras.optimizers.schedules.CosineDecay(decay_steps=num_decaying, **start)
    if num_warmup:
        return keras.optimizers.schedules.PolynomialDecay(0.0, num_warmup, end_learning_rate=rate)
    return rate
