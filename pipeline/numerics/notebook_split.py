"""Repeat the split of the CIFAR-100 notebook on indices, and see which are in both of its parts.

The notebook shuffles with a seed, then takes its validation examples from the shuffled examples and skips as many for
training. Each of the two goes through the shuffle by itself, in another order.
"""

import hashlib
import os
import subprocess
import sys

import tensorflow as tf

NUM_EXAMPLES, NUM_HELD_OUT, BUFFER, SEED = 50_000, 10_000, 100_000, 42


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
