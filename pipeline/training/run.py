"""One run: one benchmark, one variant, one seed, from the arrays to the run's folder."""

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras

from pipeline.data import datasets
from pipeline.data.batches import ShuffledBatches, WholeBatches
from pipeline.errors import UnfinishedRunError
from pipeline.files.code import digest
from pipeline.machine.disturbance import Watch
from pipeline.machine.locking import LOCKS, alone
from pipeline.records.schema import EpochRecord, Outcome, RunRecord
from pipeline.study.benchmark import Imported
from pipeline.study.schema import RunKey, Study
from pipeline.training.building import build_model, compile_model, weights_digest
from pipeline.training.checkpoint import CHECKPOINTS, Checkpoint
from pipeline.training.clock import EpochClock
from pipeline.training.epoch_log import EpochLog
from pipeline.training.evaluation import score
from pipeline.training.in_progress import RunInProgress
from pipeline.training.loops import LOOPS
from pipeline.training.precision import check_model, loss_scale_now, observed_dtypes
from pipeline.training.progress import ProgressLine

COMPILED = Path(".cache/xla")
PATIENCE_SECONDS = 5  # until the process before this one, whose parents have ended, has noticed that


def train(
    study: Study,
    key: RunKey,
    process_started: float,
    root: Path = Path(),
    ending: threading.Event | None = None,
    tell: Callable[[RunRecord], None] = lambda _: None,
) -> RunRecord:
    """Make the run `key` of `study`, write its folder under `root` and return its record.

    Divergence and lack of memory are outcomes in the record, not errors. So is a run that lasts longer than the study's
    `max_run_seconds`: it ends wherever it is, and its process with it. A run whose process was ended goes on after its
    last whole epoch.

    Args:
        process_started: `time.perf_counter()` at the start of the process; start-up time counts from there.
        ending: once it is set, the epoch in progress is the last that this process trains.
        tell: is told of the record once it is written.

    Raises:
        InputError: the data are missing or damaged, there are fewer devices than asked for, or the model does not have
            the dtypes of its policy.
        InputError: another process makes the run, or has finished it in the meantime.
        UnfinishedRunError: `ending` was set.
    """
    if study.compilation_cache:
        engine.keep_compiled(root / COMPILED)
    benchmark = study.benchmarks[key.benchmark]
    lock = root / LOCKS / (str(key.directory).replace("/", "-") + ".lock")
    data = datasets.load_dataset(benchmark.dataset, benchmark.split, root / datasets.DATA)
    with alone(lock, str(key.directory), PATIENCE_SECONDS), engine.data_parallel(study.devices):
        run = RunInProgress(study, key, data, root, process_started, tell)
        outcome: Outcome
        try:
            model = _prepare(run)
            outcome = _train(run, model, ending or threading.Event())
            if outcome == "completed":
                _test(run, model)
        except Exception as error:
            if not engine.is_out_of_memory(error):
                raise
            outcome = "out_of_memory"
        return run.finish(outcome)


def _prepare(run: RunInProgress) -> keras.Model:
    """Build and compile the model, and restore what an earlier process made of it."""
    benchmark, variant, data = run.benchmark, run.variant, run.data
    engine.set_tf32(variant.tf32)
    model, initial_weights_sha256 = build_model(
        benchmark, variant.policy, data.num_classes, data.num_channels, run.key.seed
    )
    compile_model(model, benchmark, variant)
    # Now, because a model that ran out of memory on JAX has no values any more.
    run.known |= {
        "initial_weights_sha256": initial_weights_sha256,
        "initial_loss_scale": loss_scale_now(model.optimizer),
        "num_parameters": model.count_params(),
    }
    run.memory["weights_bytes"] = sum(weight.nbytes for weight in model.get_weights())
    _predict_first(run, model)
    run.log = EpochLog(model) if run.study.tensorboard else None
    inputs = {"data": data.sha256, "initial_weights": initial_weights_sha256}
    if isinstance(benchmark.model, Imported):
        inputs["model"] = digest(Path(benchmark.model.source))
    decided = determinants(run.study, run.key, run.known["environment"]) | inputs
    run.checkpoint = Checkpoint(run.root / CHECKPOINTS, run.key, decided)
    run.resume(run.checkpoint.restore(model))
    return model


def _predict_first(run: RunInProgress, model: keras.Model) -> None:
    """Trace a prediction outside every timed window; it shows the output's real dtype."""
    # XLA compiles for one shape: there it has to be the one of validation.
    num_first = run.benchmark.evaluation_batch_size if engine.COMPILES_SHAPES else run.study.devices
    probabilities = engine.predict(model, WholeBatches(run.data.validation.images[:num_first], num_first))
    dtypes = observed_dtypes(model, str(probabilities.dtype))
    check_model(run.key.benchmark, run.benchmark, run.variant.policy, dtypes, probabilities)
    run.known |= {f"{name}_dtype": dtype for name, dtype in dtypes._asdict().items()}


def _train(run: RunInProgress, model: keras.Model, ending: threading.Event) -> Outcome:
    benchmark, variant, key = run.benchmark, run.variant, run.key
    batch_size = benchmark.batch_size * variant.batch_multiplier
    batches = ShuffledBatches(run.data.train, batch_size, key.seed)
    title = f"{key.benchmark} {key.variant} seed {key.seed}"
    progress = ProgressLine(title, benchmark.num_epochs, len(run.data.train.labels))
    run.progress = progress
    run.watch = watch = Watch(engine.gpu_places()[: run.study.devices])

    def after_epoch(epoch: EpochRecord) -> None:
        watch.look()
        progress.epoch(epoch)
        if run.log:
            run.log.write(epoch)
        if not clock.diverged and epoch.epoch < benchmark.num_epochs:
            run.save_checkpoint(model, watch.finish().worst(run.earlier.disturbance))
            if ending.is_set():
                raise UnfinishedRunError(f"{key.directory} has epoch {epoch.epoch} of {benchmark.num_epochs} behind it")

    clock = EpochClock(
        lambda: score(model, run.data.validation, benchmark.evaluation_batch_size)[:2],
        after_epoch,
        run.earlier.epochs,
    )
    run.epochs = clock.epochs  # which grows as the clock ticks
    run.startup_seconds = time.perf_counter() - run.process_started
    engine.reset_peak_memory()
    try:
        LOOPS[variant.loop](model, batches, range(len(clock.epochs), benchmark.num_epochs), [clock, progress])
    finally:
        progress.close()
        run.measure_memory()
        run.known["disturbance"] = watch.finish().worst(run.earlier.disturbance)
    return "diverged" if clock.diverged else "completed"


def _test(run: RunInProgress, model: keras.Model) -> None:
    test_loss, test_accuracy, run.predicted = score(model, run.data.test, run.benchmark.evaluation_batch_size)
    run.final_weights_sha256 = weights_digest(model.get_weights())
    run.scores |= {
        "test_loss": test_loss if math.isfinite(test_loss) else None,
        "test_accuracy": test_accuracy,
    }


def determinants(study: Study, key: RunKey, surroundings: dict[str, Any]) -> dict[str, Any]:
    """Return what decides the run `key` besides its data: its part of the study, the software and the hardware."""
    fleeting = {"git_commit", "load_average", "memory_bytes"}
    lasting = {name: value for name, value in surroundings.items() if name not in fleeting}
    accelerators = [{**accelerator, "uuid": None} for accelerator in surroundings["accelerators"]]  # any of the kind
    return {
        "study": study.model_dump(include={"campaign", "engine", "runtime", "devices"}),
        "benchmark": study.benchmarks[key.benchmark].model_dump(),
        "variant": study.variants[key.variant].model_dump(),
        "environment": lasting | {"accelerators": accelerators},
    }
