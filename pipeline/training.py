"""One run: one benchmark, one variant, one seed, from the arrays to the run's folder."""

import contextlib
import datetime
import threading
import time
from pathlib import Path
from typing import Any

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import numpy as np

from pipeline import datasets, environment, user_code
from pipeline.batches import ShuffledBatches, WholeBatches
from pipeline.benchmark import Imported
from pipeline.building import build_model, compile_model, weights_digest
from pipeline.checkpoint import ROOT as CHECKPOINTS
from pipeline.checkpoint import Checkpoint, Progress
from pipeline.clock import EpochClock
from pipeline.disturbance import Watch, timing_fault
from pipeline.epoch_log import EpochLog
from pipeline.errors import UnfinishedRunError
from pipeline.evaluation import judge, probabilities_of, score
from pipeline.loops import LOOPS
from pipeline.metrics import measure
from pipeline.precision import check_model, loss_scale_now, observed_dtypes
from pipeline.progress import ProgressLine
from pipeline.records import EpochRecord, Outcome, RunRecord, epoch_times, write_run
from pipeline.study import RunKey, Study

COMPILED = Path(".cache/xla")


def train(
    study: Study, key: RunKey, process_started: float, root: Path = Path(), ending: threading.Event | None = None
) -> RunRecord:
    """Makes the run `key` of `study`, writes its folder under `root` and returns its record.

    Of several processes that a launcher started for one run, each has its share of every batch; the first one writes.

    Divergence and lack of memory are outcomes in the record, not errors. A run whose process was ended goes on after
    its last whole epoch, unless several processes train it.

    Args:
        process_started: `time.perf_counter()` at the start of the process; start-up time counts from there.
        ending: once it is set, the epoch in progress is the last that this process trains.

    Raises:
        InputError: the data are missing or damaged, there are fewer devices than asked for, or the model does not have
            the dtypes of its policy.
        UnfinishedRunError: `ending` was set.
    """
    process = engine.join_processes()
    if study.compilation_cache:
        engine.keep_compiled(root / COMPILED)
    with engine.data_parallel(study.devices):
        return _train(study, key, process_started, root, process, ending or threading.Event())


def _train(
    study: Study,
    key: RunKey,
    process_started: float,
    root: Path,
    process: tuple[int, int],
    ending: threading.Event,
) -> RunRecord:
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    data = datasets.load(benchmark.dataset, benchmark.split, root / datasets.ROOT)
    batch_size = benchmark.batch_size * variant.batch_multiplier
    evaluation_batch_size = benchmark.evaluation_batch_size

    engine.set_tf32(variant.tf32)
    model, initial_weights_sha256 = build_model(
        benchmark, variant.policy, data.num_classes, data.num_channels, key.seed
    )
    compile_model(model, benchmark, variant)
    initial_loss_scale = loss_scale_now(model.optimizer)
    # A first prediction traces it here, outside every timed window, and shows the output's real dtype.
    # XLA compiles for one shape: there it has to be the one of validation.
    num_first = evaluation_batch_size if engine.COMPILES_SHAPES else study.devices
    probabilities = engine.predict(model, WholeBatches(data.validation.images[:num_first], num_first))
    dtypes = observed_dtypes(model, str(probabilities.dtype))
    check_model(key.benchmark, benchmark, variant.policy, dtypes, probabilities)
    labels = data.validation.labels[:num_first]
    measure(benchmark.metrics, probabilities[: len(labels)], labels)  # what can't be measured is refused now

    # Now, because a model that ran out of memory on JAX has no values any more.
    num_parameters, weights_bytes = model.count_params(), sum(weight.nbytes for weight in model.get_weights())

    batches = ShuffledBatches(data.train, batch_size, key.seed, process, benchmark.steps_per_epoch)
    progress = ProgressLine(
        f"{key.benchmark} {key.variant} seed {key.seed}", benchmark.num_epochs, batches.num_examples
    )
    surroundings = environment.describe(study.runtime)
    watch = Watch(has_gpu=bool(surroundings["accelerators"]))
    log = EpochLog(model) if study.tensorboard else None
    checkpoint = None
    if process == (0, 1):  # of several, each would have to find the same epoch
        inputs = {"data": data.sha256, "initial_weights": initial_weights_sha256}
        if isinstance(benchmark.model, Imported):
            inputs["model"] = user_code.digest(Path(benchmark.model.source))
        checkpoint = Checkpoint(root / CHECKPOINTS, key, determinants(study, key, surroundings) | inputs)
    earlier = checkpoint.restore(model) if checkpoint else Progress([], None)

    def after_epoch(epoch: EpochRecord) -> None:
        watch.look()
        progress.epoch(epoch)
        if log:
            log.write(epoch)
        if checkpoint and not clock.diverged and epoch.epoch < benchmark.num_epochs:
            checkpoint.save(model, Progress(clock.epochs, watch.finish().worst(earlier.disturbance)))
            if ending.is_set():
                raise UnfinishedRunError(f"{key.directory} has epoch {epoch.epoch} of {benchmark.num_epochs} behind it")

    clock = EpochClock(
        batches.num_examples,
        lambda: score(model, data.validation, evaluation_batch_size)[:2],
        after_epoch,
        earlier.epochs,
    )
    test_loss = test_accuracy = None
    test_metrics: dict[str, float] = {}
    predicted = np.empty(0, np.int64)
    outcome: Outcome = "completed"
    startup_seconds = time.perf_counter() - process_started
    engine.reset_peak_memory()
    try:
        LOOPS[variant.loop](model, batches, range(len(earlier.epochs), benchmark.num_epochs), [clock, progress])
    except Exception as error:
        if not engine.is_out_of_memory(error):
            raise
        outcome = "out_of_memory"
    disturbance = watch.finish().worst(earlier.disturbance)
    peak_memory_bytes, peak_memory_kind = engine.peak_memory()
    epochs = clock.epochs
    if clock.diverged:
        outcome = "diverged"
    if outcome == "completed":
        probabilities = probabilities_of(model, data.test, evaluation_batch_size)
        test_loss, test_accuracy, predicted = judge(probabilities, data.test.labels)
        test_metrics = measure(benchmark.metrics, probabilities, data.test.labels)
    last = epochs[-1] if epochs and outcome == "completed" else None
    first_epoch_seconds, steady_epoch_seconds, excluded_epochs = epoch_times(epochs)
    record = RunRecord(
        benchmark=key.benchmark,
        variant=key.variant,
        seed=key.seed,
        campaign=study.campaign,
        outcome=outcome,
        engine=study.engine,
        policy=variant.policy,
        compute_dtype=dtypes.compute,
        variable_dtype=dtypes.variable,
        output_dtype=dtypes.output,
        tf32=variant.tf32,
        jit_compile=variant.jit_compile,
        devices=study.devices,
        loop=variant.loop,
        loss_scale=variant.loss_scale.mode,
        initial_loss_scale=initial_loss_scale,
        overflow="step skipped" if variant.loss_scale.mode == "dynamic" else "step taken",
        batch_size=batch_size,
        image_size=benchmark.image_size,
        num_parameters=num_parameters,
        num_train_examples=len(data.train.labels),
        num_validation_examples=len(data.validation.labels),
        num_test_examples=len(data.test.labels),
        num_epochs=len(epochs),
        steps_per_epoch=len(batches),
        startup_seconds=startup_seconds,
        first_epoch_seconds=first_epoch_seconds,
        steady_epoch_seconds=steady_epoch_seconds,
        images_per_second=batches.num_examples / steady_epoch_seconds if steady_epoch_seconds else None,
        peak_memory_bytes=peak_memory_bytes,
        peak_memory_kind=peak_memory_kind,
        weights_bytes=weights_bytes,
        skipped_steps=epochs[-1].skipped_steps if epochs else None,
        final_loss_scale=epochs[-1].loss_scale if epochs else None,
        final_train_loss=last.train_loss if last else None,
        final_validation_accuracy=last.validation_accuracy if last else None,
        final_test_loss=test_loss,
        final_test_accuracy=test_accuracy,
        test_metrics=test_metrics,
        initial_weights_sha256=initial_weights_sha256,
        final_weights_sha256=weights_digest(model.get_weights()) if outcome == "completed" else None,
        data_sha256=data.sha256,
        resumed=bool(earlier.epochs),
        excluded_epochs=excluded_epochs,
        started_at=started_at,
        timing_fault=timing_fault(disturbance),
        disturbance=disturbance,
        environment=surroundings,
    )
    if process[0] == 0:
        with log.folder() if log else contextlib.nullcontext() as logs:
            write_run(root, record, epochs, data.test.labels, predicted, logs)
    if checkpoint:
        checkpoint.remove()
    return record


def determinants(study: Study, key: RunKey, surroundings: dict[str, Any]) -> dict[str, Any]:
    """What decides the run `key` besides its data: its part of the study, the software and the hardware."""
    fleeting = {"git_commit", "load_average", "memory_bytes"}
    return {
        "study": study.model_dump(include={"campaign", "engine", "runtime", "devices"}),
        "benchmark": study.benchmarks[key.benchmark].model_dump(),
        "variant": study.variants[key.variant].model_dump(),
        "environment": {name: value for name, value in surroundings.items() if name not in fleeting},
    }
