"""Train a model briefly with several seeds, to examine loss scaling, a leaking split and optimizers in 16 bits.

A leaking split lets a model train on some of its validation examples. All seeds use the same model, which is reset,
because tracing a new model takes longer than the training.
"""

import hashlib
import importlib.util
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pipeline import engine  # import this before Keras, so that the engine starts silently

# isort: split
import keras
import numpy as np

from pipeline.data.batches import ShuffledBatches
from pipeline.data.datasets import Dataset, Examples
from pipeline.numerics.facts import NUM_SCORED, SHORTFALL, TRIAL_SIZE, TRIALS, OptimizerTrial, TrainingSize
from pipeline.study.benchmark import Benchmark
from pipeline.study.variant import Dynamic, Fixed, Variant
from pipeline.training import building
from pipeline.training.evaluation import score
from pipeline.training.precision import scaled

SEEDS = range(6)  # if all six agree, more than half of all seeds do so (with 98 % confidence)
NUM_FIRST_STEPS = 10
SPLIT_SIZE, NUM_VALIDATED = TrainingSize(units=128, num_examples=1000, batch_size=32, num_epochs=15), 500
# Settings of the split of training data in the CIFAR-100 notebook (S3 in README.md).
NUM_SPLIT, NUM_HELD_OUT, SHUFFLE_BUFFER, SHUFFLE_SEED = 50_000, 10_000, 100_000, 42
Start = tuple[int, list[np.ndarray]]  # a seed, and a model's initial weights with this seed


def build(benchmark: Benchmark, data: Dataset, policy: str, seed: int = 0) -> keras.Model:
    """Return the benchmark's model for `data`, not compiled."""
    return building.build_model(benchmark, policy, data.num_classes, data.num_channels, seed)[0]


def starts(benchmark: Benchmark, data: Dataset, policy: str, seeds: Sequence[int]) -> Iterator[Start]:
    """Yield each seed with the initial weights that the model has with this seed."""
    return ((seed, build(benchmark, data, policy, seed).get_weights()) for seed in seeds)


def from_each(model: keras.Model, starts: Iterable[Start]) -> Iterator[int]:
    """For each of `starts`, set a compiled model to the weights, reset the model's optimizer, and yield the seed."""
    model.optimizer.build(model.trainable_variables)
    fresh = [keras.ops.convert_to_numpy(variable.value) for variable in model.optimizer.variables]
    for seed, weights in starts:
        model.set_weights(weights)
        for variable, value in zip(model.optimizer.variables, fresh, strict=True):
            variable.assign(value)
        yield seed


def build_for_steps(benchmark: Benchmark, data: Dataset, policy: str) -> keras.Model:
    """Return the benchmark's model under `policy`, compiled to take one step at a time.

    Otherwise, it is compiled as for a variant with default settings.
    """
    recipe = benchmark.model_copy(update={"steps_per_execution": 1})
    model = build(recipe, data, policy)
    plain = Variant(policy=policy, batch_multiplier=1)
    building.compile_model(model, recipe, plain)
    return model


def take_steps(model: keras.Model, batches: ShuffledBatches, num_steps: int) -> None:
    """Take `num_steps` steps on the batches in order, and begin again when the batches run out.

    Leave out the last batch, which may be smaller, unless there is only one batch.
    """
    for step in range(num_steps):
        model.train_on_batch(*batches[step % max(1, len(batches) - 1)])


def train_from_each(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    starts: Iterable[Start],
    examples: Examples,
    size: TrainingSize,
    auto_scale_loss: bool = True,
) -> Iterator[np.random.Generator]:
    """Train the model from each of `starts`. After each training, yield the generator that ordered the examples.

    One call of `fit` trains all epochs. The order of the examples differs from epoch to epoch.

    Args:
        size: the number of examples, taken from the front of `examples`, the batch size and the number of epochs.
        auto_scale_loss: whether Keras decides if the loss is scaled.
    """
    model.compile(
        optimizer,
        "sparse_categorical_crossentropy",
        auto_scale_loss=auto_scale_loss,
        jit_compile=engine.COMPILES_SHAPES,
        steps_per_execution=math.ceil(size.num_examples / size.batch_size),
    )
    images, labels = examples.first(size.num_examples)
    for seed in from_each(model, starts):
        rng = np.random.default_rng(seed)
        rows = np.concatenate([rng.permutation(len(labels)) for _ in range(size.num_epochs)])
        model.fit(images[rows], labels[rows], batch_size=size.batch_size, shuffle=False, verbose=0)
        yield rng


def skipped_steps(benchmark: Benchmark, data: Dataset, seeds: Sequence[int]) -> list[int]:
    """Return, for each seed, the number of skipped steps among the first `NUM_FIRST_STEPS` under mixed_float16.

    The dynamic loss scale skips a step if a gradient overflows. In the first steps, the scale may still be too high.
    """
    model = build_for_steps(benchmark, data, "mixed_float16")
    found = []
    for seed in from_each(model, starts(benchmark, data, "mixed_float16", seeds)):
        take_steps(model, ShuffledBatches(data.train, benchmark.batch_size, seed), NUM_FIRST_STEPS)
        found.append(NUM_FIRST_STEPS - int(keras.ops.convert_to_numpy(model.optimizer.iterations)))
    return found


def has_tensorflow() -> bool:
    """Return whether TensorFlow is installed. The CIFAR-100 notebook splits its data with TensorFlow's shuffle."""
    return importlib.util.find_spec("tensorflow") is not None


def trained_on() -> int:
    """Return the number of validation examples on which the CIFAR-100 notebook (S3 in README.md) also trains.

    The notebook shuffles with a seed. It takes the first shuffled examples for validation, and the rest for training.
    But TensorFlow shuffles again for each of these two parts, and each time in a different order.
    """
    held_out, trained = _split()
    return len(set(held_out) & set(trained))


def _split() -> tuple[list[int], list[int]]:
    """Return the notebook's indices of the examples held out, and of the examples trained on."""
    import tensorflow as tf  # only TensorFlow shuffles in this way

    tf.random.set_seed(None)  # as in a fresh process: a global seed would change the order
    indices = tf.data.Dataset.range(NUM_SPLIT)
    shuffled = indices.shuffle(SHUFFLE_BUFFER, seed=SHUFFLE_SEED)
    parts = shuffled.take(NUM_HELD_OUT).cache(), shuffled.skip(NUM_HELD_OUT).cache()
    held_out, trained = (next(part.batch(NUM_SPLIT).as_numpy_iterator()).tolist() for part in parts)
    return held_out, trained


def split_digest() -> str | None:
    """Return the SHA-256 of the two lists that `_split` returns, each sorted, or None without TensorFlow."""
    if not has_tensorflow():
        return None
    return hashlib.sha256(repr([sorted(part) for part in _split()]).encode()).hexdigest()


def split_gains(benchmark: Benchmark, data: Dataset, share: float, seeds: Sequence[int]) -> list[float]:
    """Return, for each seed, the rise of the validation accuracy that a leaking split causes, in percentage points.

    Train a small dense model until it nearly memorizes its examples. Then validate the same model twice: on unseen
    examples, and on equally many examples of which the model has seen the share `share`, in [0, 1].
    """
    recipe = benchmark.with_dense_model(SPLIT_SIZE.units).model_copy(update={"image_size": data.train.images.shape[1]})
    model, chosen = build(recipe, data, "float32"), recipe.optimizer
    optimizer = building.make_optimizer(chosen.name, chosen.learning_rate, chosen.arguments)
    seen, unseen = data.train.first(SPLIT_SIZE.num_examples), data.validation.first(NUM_VALIDATED)
    num_leaked = round(share * len(unseen.labels))
    gains = []
    for rng in train_from_each(model, optimizer, starts(recipe, data, "float32", seeds), data.train, SPLIT_SIZE):
        leaked = rng.permutation(len(seen.labels))[:num_leaked]
        leaking = Examples(
            *(np.concatenate([of[leaked], rest[num_leaked:]]) for of, rest in zip(seen, unseen, strict=True))
        )
        clean_accuracy, accuracy = (score(model, examples, NUM_VALIDATED)[1] for examples in (unseen, leaking))
        gains.append(100 * (accuracy - clean_accuracy))
    return gains


def run_trials(benchmark: Benchmark, data: Dataset, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Run each of `TRIALS` with every seed, and yield the results of the trial and of its float32 twin.

    The twin is a trial in float32 without loss scaling, with the same optimizer, options, seeds and batches. The model
    is the dense network with 64 units. Accuracies, in [0, 1], are those on the first 2,000 validation examples.
    `num_trained` is the number of seeds with which the trial's accuracy is at most 5 percentage points below the
    twin's.
    """
    recipe = benchmark.with_dense_model(TRIAL_SIZE.units)
    at_seeds = list(starts(recipe, data, "float32", seeds))
    twins: dict[str, list[float]] = {}
    for trial in TRIALS:
        twin = trial._replace(name="", policy="float32", loss_scale=None)
        if str(twin) not in twins:
            twins[str(twin)] = _accuracies(recipe, data, twin, at_seeds)
        theirs, ours = twins[str(twin)], _accuracies(recipe, data, trial, at_seeds)
        num_trained = sum(our >= their - SHORTFALL for our, their in zip(ours, theirs, strict=True))
        yield (
            trial._asdict()
            | {"accuracies": ours, "float32_accuracies": theirs}
            | {"num_trained": num_trained, "num_trials": len(seeds)}
        )


def _accuracies(recipe: Benchmark, data: Dataset, trial: OptimizerTrial, at_seeds: Sequence[Start]) -> list[float]:
    """Return, for each start, the validation accuracy of the trial, in [0, 1]."""
    model = build(recipe, data, trial.policy)
    optimizer = building.make_optimizer(trial.optimizer, 0.001, trial.options)
    # None leaves the loss scale to Keras: a dynamic scale under mixed_float16, and no scale under other policies.
    by_itself = trial.loss_scale is None
    if trial.loss_scale == "dynamic":
        optimizer = scaled(optimizer, Dynamic(mode="dynamic"))
    elif trial.loss_scale is not None:
        optimizer = scaled(optimizer, Fixed(mode="fixed", value=trial.loss_scale))
    trained = train_from_each(model, optimizer, at_seeds, data.train, TRIAL_SIZE, by_itself)
    return [score(model, data.validation.first(NUM_SCORED), NUM_SCORED)[1] for _ in trained]
