"""Time bare steps of EfficientNet in turns, with TensorFlow's fused batch norm, as a run has it, and with Keras's.

A batch lies ready, and there are no metrics, callbacks or input. So the fused one is what a run can reach with these
kernels, and their ratio is what the fused kernel gains.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

from pipeline import engine  # noqa: F401  first: it quietens the engine

# isort: split
import keras
import numpy as np
import tensorflow as tf

from bench.figures import figure, line
from bench.processes import in_turn
from bench.runs import CIFAR, FULL_SIZE, quick_study
from pipeline.engine.fused_batch_norm import BatchNormalization
from pipeline.models import efficientnet
from pipeline.study.schema import Study
from pipeline.training.building import compile_model

FUSED = "fused"
LAYERS = {FUSED: BatchNormalization, "keras": keras.layers.BatchNormalization}
VARIANTS = ("float32", "float32_2x", "mixed_float16", "mixed_bfloat16")
NUM_CLASSES = 100


def bare_step(
    study: Study, variant: str, layer: type[keras.layers.BatchNormalization]
) -> tuple[Callable[[], Any], int]:
    """Return a function that trains a step on the same batch again and again, and the number of images it trains."""
    recipe, chosen = study.benchmarks[CIFAR], study.variants[variant]
    size, num_images = recipe.image_size, recipe.batch_size * chosen.batch_multiplier
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(chosen.policy)
    arguments = recipe.model.model_dump(exclude={"name", "source"})
    model = efficientnet.build(num_classes=NUM_CLASSES, image_shape=(size, size, 3), batch_norm=layer, **arguments)
    compile_model(model, recipe, chosen)
    optimizer, rng = model.optimizer, np.random.default_rng(0)
    images = tf.constant(rng.random((num_images, size, size, 3), np.float32))
    labels = tf.constant(rng.integers(0, NUM_CLASSES, num_images))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(labels, model(images, training=True))
            loss = optimizer.scale_loss(keras.ops.mean(losses))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return step, num_images


def main(arguments: argparse.Namespace) -> None:
    study = quick_study({CIFAR: FULL_SIZE} if arguments.full_size else None)
    num_steps = 1 if arguments.full_size else 20
    for variant in VARIANTS:
        steps = {name: bare_step(study, variant, layer) for name, layer in LAYERS.items()}
        for step, _ in steps.values():
            float(step())  # traces, and warms up
        speeds: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(arguments.turns):
            for name in in_turn(turn, list(steps)):
                step, num_images = steps[name]
                started = time.perf_counter()
                for _ in range(num_steps):
                    loss = step()
                float(loss)
                speeds[name].append(num_steps * num_images / (time.perf_counter() - started))
        ours, peer = speeds.values()
        size = study.benchmarks[CIFAR].image_size
        row = figure(
            "bare step",
            "images_per_second",
            ours,
            peer,
            of="Keras's batch norm",
            better="higher",
            image_size=size,
            variant=variant,
        )
        print(line(row), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.steps", description=__doc__)
    parser.add_argument("--full-size", action="store_true", help="B0 at 224 × 224, batch 16, a step a turn")
    parser.add_argument("--turns", type=int, default=8)
    main(parser.parse_args())
