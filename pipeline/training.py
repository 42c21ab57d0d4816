"""One run: one benchmark, one variant, one seed, from the arrays to the run's folder."""

import contextlib
import datetime
import hashlib
import math
import time
from pathlib import Path
from statistics import median

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
import numpy as np

from pipeline import datasets, environment, models
from pipeline.batches import ShuffledBatches
from pipeline.clock import EpochClock
from pipeline.disturbance import Watch, timing_fault
from pipeline.epoch_log import EpochLog
from pipeline.errors import InputError
from pipeline.loops import LOOPS
from pipeline.precision import expected_dtypes, loss_scale_now, observed_dtypes, scaled
from pipeline.progress import ProgressLine
from pipeline.records import EpochRecord, Outcome, RunRecord, write_run
from pipeline.study import Benchmark, RunKey, Study
from pipeline.variant import LossScale

COMPILED = Path(".cache/xla")
OPTIMIZERS = {"adam": keras.optimizers.Adam, "rmsprop": keras.optimizers.RMSprop}


def train(study: Study, key: RunKey, process_started: float, root: Path = Path()) -> RunRecord:
    """Makes the run `key` of `study`, writes its folder under `root` and returns its record.

    Of several processes that a launcher started for one run, each has its share of every batch; the first one writes.

    Divergence and lack of memory are outcomes in the record, not errors.

    Args:
        process_started: `time.perf_counter()` at the start of the process; start-up time counts from there.

    Raises:
        InputError: the data are missing or damaged, there are fewer devices than asked for, or the model does not have
            the dtypes of its policy.
    """
    process = engine.join_processes()
    if study.compilation_cache:
        engine.keep_compiled(root / COMPILED)
    with engine.data_parallel(study.devices):
        return _train(study, key, process_started, root, process)


def _train(study: Study, key: RunKey, process_started: float, root: Path, process: tuple[int, int]) -> RunRecord:
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    data = datasets.load(benchmark.dataset, benchmark.split, root / datasets.ROOT)
    batch_size = benchmark.batch_size * variant.batch_multiplier
    evaluation_batch_size = benchmark.evaluation_batch_size

    engine.set_tf32(variant.tf32)
    model, initial_weights_sha256 = build_model(
        benchmark, variant.policy, data.num_classes, data.num_channels, key.seed
    )
    compile_model(model, benchmark, variant.loss_scale, variant.jit_compile)
    initial_loss_scale = loss_scale_now(model.optimizer)
    # A first prediction traces it here, outside every timed window, and shows the output's real dtype.
    # XLA compiles for one shape: there it has to be the one of validation.
    num_first = evaluation_batch_size if engine.COMPILES_SHAPES else study.devices
    first = data.validation.images[whole_batches(len(data.validation.labels), num_first)[:num_first]]
    dtypes = observed_dtypes(model, str(engine.predict(model, first, num_first).dtype))
    if dtypes != expected_dtypes(variant.policy):
        raise InputError(
            f"{key.benchmark} must have {expected_dtypes(variant.policy)} under {variant.policy}: {dtypes}"
        )

    # Now, because a model that ran out of memory on JAX has no values any more.
    num_parameters, weights_bytes = model.count_params(), sum(weight.nbytes for weight in model.get_weights())

    batches = ShuffledBatches(data.train, batch_size, key.seed, process)
    progress = ProgressLine(f"{key.benchmark} {key.variant} seed {key.seed}", benchmark.num_epochs, data.train)
    surroundings = environment.describe(study.runtime)
    watch = Watch(has_gpu=bool(surroundings["accelerators"]))
    log = EpochLog(model) if study.tensorboard else None

    def after_epoch(epoch: EpochRecord) -> None:
        watch.look()
        progress.epoch(epoch)
        if log:
            log.write(epoch)

    clock = EpochClock(data.train, lambda: score(model, data.validation, evaluation_batch_size)[:2], after_epoch)
    test_loss = test_accuracy = None
    predicted = np.empty(0, np.int64)
    outcome: Outcome = "completed"
    startup_seconds = time.perf_counter() - process_started
    engine.reset_peak_memory()
    try:
        LOOPS[variant.loop](model, batches, benchmark.num_epochs, [clock, progress])
    except Exception as error:
        if not engine.is_out_of_memory(error):
            raise
        outcome = "out_of_memory"
    disturbance = watch.finish()
    peak_memory_bytes, peak_memory_kind = engine.peak_memory()
    epochs = clock.epochs
    if clock.diverged:
        outcome = "diverged"
    if outcome == "completed":
        test_loss, test_accuracy, predicted = score(model, data.test, evaluation_batch_size)
    last = epochs[-1] if epochs and outcome == "completed" else None
    steady_epoch_seconds = median(epoch.train_seconds for epoch in epochs[1:]) if len(epochs) > 1 else None
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
        first_epoch_seconds=epochs[0].train_seconds if epochs else None,
        steady_epoch_seconds=steady_epoch_seconds,
        images_per_second=len(data.train.labels) / steady_epoch_seconds if steady_epoch_seconds else None,
        peak_memory_bytes=peak_memory_bytes,
        peak_memory_kind=peak_memory_kind,
        weights_bytes=weights_bytes,
        skipped_steps=epochs[-1].skipped_steps if epochs else None,
        final_loss_scale=epochs[-1].loss_scale if epochs else None,
        final_train_loss=last.train_loss if last else None,
        final_validation_accuracy=last.validation_accuracy if last else None,
        final_test_loss=test_loss,
        final_test_accuracy=test_accuracy,
        initial_weights_sha256=initial_weights_sha256,
        data_sha256=data.sha256,
        resumed=False,
        started_at=started_at,
        timing_fault=timing_fault(disturbance),
        disturbance=disturbance,
        environment=surroundings,
    )
    if process[0] == 0:
        with log.folder() if log else contextlib.nullcontext() as logs:
            write_run(root, record, epochs, data.test.labels, predicted, logs)
    return record


def build_model(
    benchmark: Benchmark, policy: str, num_classes: int, num_channels: int, seed: int
) -> tuple[keras.Model, str]:
    """The benchmark's model under `policy`, and the SHA-256 of its initial weights in float32.

    The weights depend on the seed alone: a model whose variables are 16 bits wide gets the float32 ones, rounded.
    """

    def build(policy: str) -> keras.Model:
        keras.utils.set_random_seed(seed)
        previous = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            return models.build(benchmark, num_classes, num_channels, seed)
        finally:
            keras.config.set_dtype_policy(previous)

    model = build(policy)
    reference = model if expected_dtypes(policy).variable == "float32" else build("float32")
    weights = reference.get_weights()
    if reference is not model:
        model.set_weights(weights)
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(np.ascontiguousarray(weight).data)
    return model, digest.hexdigest()


def compile_model(model: keras.Model, benchmark: Benchmark, loss_scale: LossScale, jit_compile: bool) -> None:
    """Compiles `model` as the recipe says, with every variable in place before the first step.

    Keras traces the training function a second time when its first call creates variables.
    """
    optimizer = OPTIMIZERS[benchmark.optimizer.name](learning_rate=benchmark.optimizer.learning_rate)
    model.compile(
        optimizer=scaled(optimizer, loss_scale),
        auto_scale_loss=False,
        loss="sparse_categorical_crossentropy",
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=jit_compile,
        steps_per_execution=benchmark.steps_per_execution,
    )
    model.optimizer.build(model.trainable_variables)
    engine.share_gradients(model)


def whole_batches(num_examples: int, batch_size: int) -> np.ndarray:
    """Rows in order, the last one repeated until the last batch is full."""
    return np.minimum(np.arange(math.ceil(num_examples / batch_size) * batch_size), num_examples - 1)


def score(model: keras.Model, examples: datasets.Examples, batch_size: int) -> tuple[float, float, np.ndarray]:
    """Mean cross-entropy, accuracy in [0, 1], and the most probable class of each example (N,).

    XLA compiles for one shape, and several devices share a batch evenly: every batch is a whole one.
    """
    num_examples = len(examples.labels)
    images = examples.images[whole_batches(num_examples, batch_size)]
    probabilities = engine.predict(model, images, batch_size)[:num_examples]
    true = np.take_along_axis(probabilities, examples.labels[:, None], axis=1)[:, 0]
    # Keras clips at the same place, so that a probability of zero costs 16.1 and not infinity.
    loss = -np.log(np.clip(true, keras.config.epsilon(), 1.0)).mean(dtype=np.float64)
    predicted = probabilities.argmax(axis=1)
    return float(loss), float((predicted == examples.labels).mean()), predicted
