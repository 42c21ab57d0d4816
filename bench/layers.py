"""Time single layers, and a step at the sources' image size, under three policies, as rows of a Markdown table.

Each policy has a process of its own, with the kernels that a run under it has. A time is the median of several calls.
"""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from typing import Any

from pipeline.compiled.programs import DATASETS, recipes
from pipeline.machine.engine_choice import choose_engine
from pipeline.study.variant import Variant

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
NUM_WARMUP_CALLS, MIN_CALLS, MIN_SECONDS = 3, 5, 1.0
BATCH_SIZE, MAP_SIZE = 64, 16  # of a layer
STEP_BATCH_SIZE, STEP_IMAGE_SIZE = 16, 224


def milliseconds(call: Callable[[], Any]) -> float:
    for _ in range(NUM_WARMUP_CALLS):
        call()
    seconds: list[float] = []
    while len(seconds) < MIN_CALLS or sum(seconds) < MIN_SECONDS:
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return 1000 * median(seconds)


def measure(policy: str) -> dict[str, tuple[float, float]]:
    """Return the milliseconds of each row under `policy`: forward alone, and forward and backward."""
    choose_engine("tensorflow", [policy])
    from pipeline import engine  # noqa: F401, I001  first, and late: it reads the environment
    import keras
    import numpy as np
    import tensorflow as tf

    from pipeline.training.building import build_model, compile_model

    def of_layer(layer: Any, width: int) -> tuple[float, float]:
        images = tf.Variable(tf.random.normal((BATCH_SIZE, MAP_SIZE, MAP_SIZE, width), dtype=layer.compute_dtype))
        layer(images)

        def both() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(images))
            return tape.gradient(loss, [images, *layer.trainable_variables])

        return milliseconds(tf.function(lambda: layer(images))), milliseconds(tf.function(both))

    options: dict[str, Any] = {"padding": "same", "use_bias": False, "dtype": policy}
    found = {f"3 × 3, {n} channels": of_layer(keras.layers.Conv2D(n, 3, **options), n) for n in (16, 32, 64, 128)}
    found["1 × 1, 64 channels"] = of_layer(keras.layers.Conv2D(64, 1, **options), 64)
    for stride in (1, 2):
        layer = keras.layers.DepthwiseConv2D(3, strides=stride, **options)
        found[f"depthwise 3 × 3, 64 channels, stride {stride}"] = of_layer(layer, 64)

    benchmark = recipes()["cifar100_efficientnet_b0"]
    small = benchmark.model.model_copy(update={"depth": 0.1})
    benchmark = benchmark.model_copy(
        update={"model": small, "image_size": STEP_IMAGE_SIZE, "batch_size": STEP_BATCH_SIZE, "steps_per_execution": 1}
    )
    shape, num_classes = DATASETS["cifar100"]
    model, _ = build_model(benchmark, policy, num_classes, shape[-1], seed=0)
    compile_model(model, benchmark, Variant.model_validate({"policy": policy, "batch_multiplier": 1}))
    images, labels = np.zeros((STEP_BATCH_SIZE, *shape), "uint8"), np.zeros(STEP_BATCH_SIZE, "int32")
    name = f"small EfficientNet at {STEP_IMAGE_SIZE} × {STEP_IMAGE_SIZE}, batch {STEP_BATCH_SIZE}, with its optimizer"
    forward = milliseconds(lambda: model.predict_on_batch(images))
    found[name] = forward, milliseconds(lambda: model.train_on_batch(images, labels))
    return found


def main() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        by_policy = dict(zip(POLICIES, processes.map(measure, POLICIES), strict=True))
    ways = ("forward", "forward and backward")
    print("| milliseconds |", " | ".join(f"{policy}, {way}" for way in ways for policy in POLICIES), "|")
    print("| --- |" + " ---: |" * len(ways) * len(POLICIES))
    for name in by_policy["float32"]:
        times = [by_policy[policy][name][way] for way in range(len(ways)) for policy in POLICIES]
        print(f"| {name} |", " | ".join(f"{each:.1f}" for each in times), "|")


if __name__ == "__main__":
    main()
