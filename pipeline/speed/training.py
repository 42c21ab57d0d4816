"""Train one variant in this process, one block of steps at a time."""

import math
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import engine  # first: it silences the engine before Keras imports it

# isort: split
import keras
import numpy as np

from pipeline.data import datasets
from pipeline.data.batches import ShuffledBatches
from pipeline.data.datasets import Examples
from pipeline.machine import own_memory
from pipeline.machine.disturbance import Watch
from pipeline.records.blocks import Block, besides_images
from pipeline.speed.turns import Task
from pipeline.study.policies import POLICIES
from pipeline.study.schema import Study
from pipeline.training.building import build_model, compile_model
from pipeline.training.evaluation import score
from pipeline.training.loops import LOOPS
from pipeline.training.precision import check_float32
from pipeline.training.run import COMPILED

SEED = 0
NUM_WARMUP_EXECUTIONS = 2
MAX_VALIDATION_SECONDS = 1.0  # roughly; if scoring all images takes longer, fewer are scored
MANY_EPOCHS = 10**6
NO_TASK = Task(0)


class _EnoughBatches(ShuffledBatches):
    """Serve a given number of whole batches. When the examples run out, repeat them in the same order."""

    num_steps = 1

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self._order = np.resize(self._order, self.num_steps * self._batch_size)

    def serve(self, num_steps: int) -> None:
        self.num_steps = num_steps
        self.begin_epoch(0)


class _Trainee(keras.callbacks.Callback):
    """Train a variant's model, one block of steps for each task.

    Each block is an epoch of the training loop. One call of the loop trains all consecutive blocks with the same number
    of steps, because starting a call takes longer than a block. The first `steps_per_execution` steps of each epoch are
    not timed: while this process waited for its turn, other processes filled the caches, and the system may have
    reclaimed memory.

    Args:
        tasks: one for each block after the warm-up.
        answer: called with each block, but with the warm-up block only if that block failed.
        root_pid: the process whose descendants belong to the measurement; by default, this process.
    """

    def __init__(
        self,
        study: Study,
        benchmark_name: str,
        variant_name: str,
        tasks: Iterator[Task],
        answer: Callable[[Block], None],
        root_pid: int | None,
    ) -> None:
        super().__init__()
        self.benchmark, self.variant = study.benchmarks[benchmark_name], study.variants[variant_name]
        self.data = datasets.load_dataset(self.benchmark.dataset, self.benchmark.split)
        engine.round_float32(POLICIES[self.variant.policy].products != "float32")
        own_memory.begin()
        data = self.data
        policy, float32_layers = self.variant.precision
        classes, channels = data.num_classes, data.num_channels
        self.network, _ = build_model(self.benchmark, policy, classes, channels, SEED, float32_layers)
        check_float32(self.variant.policy)
        compile_model(self.network, self.benchmark, self.variant)
        self.batch_size = self.benchmark.batch_size * self.variant.batch_multiplier
        self.validates = study.speed.validation
        self.gpu = engine.gpu_place()
        self.tasks, self.answer, self.root_pid = tasks, answer, root_pid
        self.num_blocks = 0
        self.task = Task(NUM_WARMUP_EXECUTIONS * self.benchmark.steps_per_execution)

    def train(self) -> None:
        """Train blocks until there are no more tasks, or a block fails. Lack of memory is an outcome, not an error."""
        try:
            on_device = engine.keeps_images(self.data.train.images.nbytes)
            batches = _EnoughBatches(self.data.train, self.batch_size, SEED, on_device)
            while self.task != NO_TASK:
                batches.serve(self.task.num_steps + self.benchmark.steps_per_execution)
                epochs = range(self.num_blocks, self.num_blocks + MANY_EPOCHS)
                LOOPS[self.variant.loop](self.network, batches, epochs, [self])
        except Exception as error:
            if not engine.is_out_of_memory(error):
                raise
            self.answer(Block(outcome="out_of_memory"))

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.is_timed = False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self.is_timed:
            self.is_timed = True
            engine.synchronise()
            self.watch = Watch(self.gpu, self.root_pid)
            self.started, self.cpu_started, self.kernel_started = (
                time.perf_counter(),
                time.process_time(),
                kernel_seconds(),
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        engine.synchronise()
        wall_seconds, cpu_seconds = time.perf_counter() - self.started, time.process_time() - self.cpu_started
        in_kernel = kernel_seconds() - self.kernel_started
        if self.gpu is not None:
            self.watch.look()
        block = self._block(wall_seconds, cpu_seconds, in_kernel, float((logs or {})["loss"]))
        is_over = block.outcome != "completed"
        if self.num_blocks > 1 or is_over:
            self.answer(block)
        done, self.task = self.task, NO_TASK if is_over else next(self.tasks, NO_TASK)
        self.model.stop_training = self.task.num_steps != done.num_steps

    def _block(self, wall_seconds: float, cpu_seconds: float, in_kernel: float, loss: float) -> Block:
        if not self.num_blocks:
            if self.validates:
                self._size_validation()
            engine.reset_peak_memory()
        validation = self._validate() if self.validates and self.task.with_validation else {}
        self.num_blocks += 1
        peak_memory_bytes, peak_memory_kind = engine.peak_memory()
        disturbance = self.watch.finish()
        is_finite = math.isfinite(loss)
        return Block(
            outcome="completed" if is_finite else "diverged",
            num_steps=self.task.num_steps,
            num_images=self.task.num_steps * self.batch_size,
            wall_seconds=wall_seconds if is_finite else None,
            cpu_seconds=cpu_seconds if is_finite else None,
            kernel_seconds=in_kernel if is_finite else None,
            **validation,
            loss=loss if is_finite else None,
            peak_memory_bytes=peak_memory_bytes,
            peak_memory_kind=peak_memory_kind,
            other_cpu_share=disturbance.other_cpu_share,
            num_gpu_processes=disturbance.num_gpu_processes,
        )

    def _size_validation(self) -> None:
        """Choose how many images `_validate` scores: all, unless that would take over `MAX_VALIDATION_SECONDS`.

        The first call of `_score` traces the prediction, so only the second call is timed.
        """
        batch_size = self.benchmark.evaluation_batch_size
        self.one_batch = self.data.validation.first(batch_size)
        self._score(self.one_batch)
        num_batches = max(1, int(MAX_VALIDATION_SECONDS / self._score(self.one_batch)))
        self.validated = self.data.validation.first(num_batches * batch_size)

    def _validate(self) -> dict[str, Any]:
        """Score as many images as `_size_validation` chose, and return a block's validation fields.

        If these images fill several batches but are not all images, also find the part of the time that does not depend
        on the number of images.
        """
        num_images, num_in_batch = len(self.validated.labels), len(self.one_batch.labels)
        seconds, call_seconds = self._score(self.validated), None
        if num_in_batch < num_images < len(self.data.validation.labels):
            call_seconds = besides_images(seconds, num_images, self._score(self.one_batch), num_in_batch)
        return {
            "num_validation_images": num_images,
            "validation_seconds": seconds,
            "validation_call_seconds": call_seconds,
        }

    def _score(self, examples: Examples) -> float:
        """Score the model on `examples` as a run does after an epoch. Return the seconds that scoring took."""
        started = time.perf_counter()
        score(self.network, examples, self.benchmark.evaluation_batch_size)
        return time.perf_counter() - started


def kernel_seconds() -> float:
    """Return the CPU seconds that the system's kernel has spent for this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def train_blocks(
    study: Study,
    benchmark: str,
    variant: str,
    tasks: Iterator[Task],
    answer: Callable[[Block], None],
    root_pid: int | None = None,
    check_read: Callable[[], None] = lambda: None,
) -> None:
    """Train a warm-up block, then a block for each of `tasks`. Pass each of the later blocks to `answer`.

    The warm-up block is passed to `answer` only if it failed. If memory runs out during training, or a loss is not
    finite, the last block reports this as its outcome. The descendants of the process `root_pid` belong to the
    measurement and don't count as a disturbance. `check_read` is called after data, code and model have been read.
    """
    if study.compilation_cache:
        engine.keep_compiled(COMPILED)
    trainee = _Trainee(study, benchmark, variant, tasks, answer, root_pid)
    check_read()
    trainee.train()
