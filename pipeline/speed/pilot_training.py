"""Train one variant in a process of a pilot, a block of steps at a time."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras

from pipeline.data import datasets
from pipeline.data.batches import ShuffledBatches
from pipeline.machine.disturbance import Watch
from pipeline.speed.worker import Block
from pipeline.study.schema import Study
from pipeline.training.building import build_model, compile_model
from pipeline.training.loops import fit
from pipeline.training.precision import loss_scale_now

SEED = 0
NUM_WARMUP_STEPS = 2


class _Stopwatch(keras.callbacks.Callback):
    """Device-synchronised seconds of an epoch, and its loss."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        engine.synchronise()
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        engine.synchronise()
        self.seconds = time.perf_counter() - self.started
        self.loss = float((logs or {})["loss"])


def train_blocks(
    study: Study, benchmark_name: str, variant_name: str, sizes: Iterator[int], root: Path = Path()
) -> Iterator[Block]:
    """Train as many images as each of `sizes` says, and yield what it took; a warm-up before is not told of.

    Lack of memory, or a loss that is not finite, is a last block and no error.
    """
    benchmark, variant = study.benchmarks[benchmark_name], study.variants[variant_name]
    data = datasets.load_dataset(benchmark.dataset, benchmark.split, root / datasets.DATA)
    engine.set_tf32(variant.tf32)
    model, _ = build_model(benchmark, variant.policy, data.num_classes, data.num_channels, SEED)
    compile_model(model, benchmark, variant)
    batch_size = benchmark.batch_size * variant.batch_multiplier
    stopwatch = _Stopwatch()
    num_steps = epoch = 0

    def train(num_more: int) -> Block:
        nonlocal num_steps, epoch
        batches = ShuffledBatches(data.train, batch_size, SEED, num_steps=num_more)
        watch = Watch()
        try:
            fit(model, batches, range(epoch, epoch + 1), [stopwatch])
        except Exception as error:
            if not engine.is_out_of_memory(error):
                raise
            return Block(outcome="out_of_memory")
        num_steps, epoch = num_steps + num_more, epoch + 1
        peak_memory_bytes, peak_memory_kind = engine.peak_memory()
        is_finite = math.isfinite(stopwatch.loss)
        return Block(
            outcome="completed" if is_finite else "diverged",
            seconds=stopwatch.seconds if is_finite else None,
            num_steps=num_steps,
            skipped_steps=num_steps - int(keras.ops.convert_to_numpy(model.optimizer.iterations)),
            loss_scale=loss_scale_now(model.optimizer),
            loss=stopwatch.loss if is_finite else None,
            peak_memory_bytes=peak_memory_bytes,
            peak_memory_kind=peak_memory_kind,
            other_cpu_share=watch.finish().other_cpu_share,
        )

    warmed = train(NUM_WARMUP_STEPS)
    for size in sizes:
        block = train(math.ceil(size / batch_size)) if warmed.outcome == "completed" else warmed
        yield block
        if block.outcome != "completed":
            return
