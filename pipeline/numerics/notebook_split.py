"""Repeat the split of the CIFAR-100 notebook on indices, and see what it does to a validation accuracy.

The notebook shuffles with a seed, then takes its validation examples from the shuffled examples and skips as many for
training. Each of the two goes through the shuffle by itself, in another order.
"""

import hashlib
import math
import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipeline import engine
from pipeline.data.datasets import Dataset
from pipeline.numerics.repeating import fit_in_order, from_each
from pipeline.study.benchmark import Benchmark
from pipeline.training import building, evaluation

NUM_EXAMPLES, NUM_HELD_OUT, BUFFER, SEED = 50_000, 10_000, 100_000, 42
NUM_TRAINED, NUM_VALIDATED, UNITS, NUM_EPOCHS, BATCH_SIZE = 1000, 500, 128, 15, 32


def trained_on(reshuffle: bool | None = None) -> int:
    """Return how many of the notebook's validation examples are trained on as well.

    `reshuffle` is `reshuffle_each_iteration`, which the notebook leaves at its default.
    """
    held_out, trained = _split(reshuffle)
    return len(set(held_out) & set(trained))


def _split(reshuffle: bool | None = None) -> tuple[list[int], list[int]]:
    """Return the indices that are held out, and those that are trained on."""
    tf.random.set_seed(None)  # as in a fresh process: a global seed would change the order
    shuffled = tf.data.Dataset.range(NUM_EXAMPLES).shuffle(BUFFER, seed=SEED, reshuffle_each_iteration=reshuffle)
    parts = shuffled.take(NUM_HELD_OUT).cache(), shuffled.skip(NUM_HELD_OUT).cache()
    held_out, trained = (next(part.batch(NUM_EXAMPLES).as_numpy_iterator()).tolist() for part in parts)
    return held_out, trained


def split_digest() -> str:
    """Return a digest of both parts of the notebook's split."""
    return hashlib.sha256(repr([sorted(part) for part in _split()]).encode()).hexdigest()


def same_after_restart() -> bool:
    """Return whether another process that uses the notebook's seed makes the same split as this one."""
    program = f"from pipeline import engine; from {__name__} import split_digest; print(split_digest())"
    alone = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=alone, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()[-1] == split_digest()


def split_gains(benchmark: Benchmark, data: Dataset, share: float, seeds: Sequence[int]) -> list[float]:
    """Return by how many percentage points a leaking split raises the validation accuracy, by seed.

    A small dense model learns some examples nearly by heart. It is then validated on unseen examples, and on as many
    of which `share` were trained on: the same model, so that the split alone makes the difference.
    """
    recipe = benchmark.with_dense_model(UNITS).model_copy(update={"image_size": data.train.images.shape[1]})
    model, _ = building.build_model(recipe, "float32", data.num_classes, data.num_channels, seed=0)
    optimizer = building.make_optimizer(
        recipe.optimizer.name, recipe.optimizer.learning_rate, recipe.optimizer.arguments
    )
    model.compile(
        optimizer,
        "sparse_categorical_crossentropy",
        jit_compile=engine.COMPILES_SHAPES,
        steps_per_execution=math.ceil(NUM_TRAINED / BATCH_SIZE),
    )
    images, labels = data.train.images[:NUM_TRAINED], data.train.labels[:NUM_TRAINED]
    starts = (
        building.build_model(recipe, "float32", data.num_classes, data.num_channels, seed)[0].get_weights()
        for seed in seeds
    )
    gains = []
    for seed, _ in zip(seeds, from_each(model, starts), strict=True):
        order = np.random.default_rng(seed)
        fit_in_order(model, images, labels, BATCH_SIZE, NUM_EPOCHS, order)
        clean = data.validation._replace(
            images=data.validation.images[:NUM_VALIDATED], labels=data.validation.labels[:NUM_VALIDATED]
        )
        num_leaked = round(share * len(clean.labels))
        leaked = order.permutation(len(labels))[:num_leaked]
        leaking = clean._replace(
            images=np.concatenate([images[leaked], clean.images[num_leaked:]]),
            labels=np.concatenate([labels[leaked], clean.labels[num_leaked:]]),
        )
        accuracies = [evaluation.score(model, examples, NUM_VALIDATED)[1] for examples in (clean, leaking)]
        gains.append(100 * (accuracies[1] - accuracies[0]))
    return gains
