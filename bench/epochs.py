"""Time epochs of one variant of a benchmark, on images drawn at random."""

import functools
import time
from typing import Any

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
import numpy as np

from pipeline.data.batches import ShuffledBatches
from pipeline.data.datasets import Examples
from pipeline.study.benchmark import Benchmark
from pipeline.study.variant import Variant
from pipeline.training import building, loops


class Ready(ShuffledBatches):
    """As many batches, each of them the same one, which lies ready."""

    @functools.cached_property
    def _first(self) -> Any:
        return super().__getitem__(0)

    def __getitem__(self, index: int) -> Any:
        return self._first


class Epochs:
    """A compiled model and the batches that it trains on; `shape` is height, width, channels and classes."""

    def __init__(self, benchmark: Benchmark, variant: Variant, shape: tuple[int, int, int, int]) -> None:
        *self.image_shape, self.num_classes = shape
        self.loop = loops.LOOPS[variant.loop]
        self.batch_size = benchmark.batch_size * variant.batch_multiplier
        self.generator = np.random.default_rng(0)
        engine.set_tf32(variant.tf32)
        self.model, _ = building.build_model(benchmark, variant.policy, self.num_classes, self.image_shape[-1], seed=0)
        building.compile_model(self.model, benchmark, variant)

    def batches(self, num_steps: int, ready: bool = False) -> ShuffledBatches:
        """Return the batches of an epoch; those that lie `ready` cost nothing to take."""
        count = num_steps * self.batch_size
        images = self.generator.integers(0, 256, (count, *self.image_shape), dtype=np.uint8)
        examples = Examples(images, self.generator.integers(0, self.num_classes, count))
        return (Ready if ready else ShuffledBatches)(examples, self.batch_size, seed=0)

    def seconds(self, batches: ShuffledBatches, num_epochs: int) -> list[float]:
        """Train, and return the seconds of each epoch."""
        started, found = [], []

        def begin(*_: Any) -> None:
            engine.synchronise()
            started.append(time.perf_counter())

        def end(*_: Any) -> None:
            engine.synchronise()
            found.append(time.perf_counter() - started[-1])

        clock = keras.callbacks.LambdaCallback(on_epoch_begin=begin, on_epoch_end=end)
        self.loop(self.model, batches, range(num_epochs), [clock])
        return found
