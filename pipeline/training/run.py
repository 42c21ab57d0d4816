"""Make one run, of one benchmark, variant and seed, from the data arrays to the run's files."""

import datetime
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import engine  # first: it silences the engine before Keras imports it

# isort: split
import keras

from pipeline.data import datasets
from pipeline.data.batches import ShuffledBatches, WholeBatches
from pipeline.data.datasets import Dataset
from pipeline.machine import environment, own_memory
from pipeline.machine.disturbance import Watch
from pipeline.records.run_record import EpochRecord, Outcome, RunRecord
from pipeline.study.policies import POLICIES
from pipeline.study.schema import RunKey, Study
from pipeline.training.building import build_model, compile_model, weights_digest
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.clock import EpochClock
from pipeline.training.divergence import first_not_finite
from pipeline.training.evaluation import score
from pipeline.training.loops import LOOPS
from pipeline.training.precision import check_float32, check_model, observed_dtypes
from pipeline.training.so_far import CHECKPOINT, Notes, Progress, SoFar, Tested, finish

COMPILED = Path(".cache/xla")


def train(
    study: Study,
    key: RunKey,
    folder: Path,
    tell: Callable[[SoFar], None],
    check_read: Callable[[], None] = lambda: None,
) -> RunRecord:
    """Make the run `key` of `study`, write its files into `folder` and return its record.

    Divergence and lack of memory are outcomes in the record, not errors. If an earlier process was interrupted, the run
    resumes after its last whole epoch, from the checkpoint in `folder`.

    Args:
        tell: called with the run's notes each time they grow.
        check_read: called once data, code and model are read; raises an error if one of them was edited meanwhile.

    Raises:
        InputError: the data are missing or damaged, float32 is rounded here, or the model does not have the dtypes of
            its policy.
    """
    process_started = time.perf_counter()
    if study.compilation_cache:
        engine.keep_compiled(COMPILED)
    benchmark = study.benchmarks[key.benchmark]
    data = datasets.load_dataset(benchmark.dataset, benchmark.split)
    notes = Notes(_start(data, process_started), tell)
    outcome: Outcome
    tested = None
    try:
        model, checkpoint = _prepare(study, key, data, notes, folder, check_read)
        outcome = _train(study, key, data, model, checkpoint, notes)
        if outcome == "diverged":
            notes.add(facts={"first_not_finite": _where_it_diverged(study, key, data, checkpoint)})
        if outcome == "completed":
            tested = _test(study, key, data, model)
    except Exception as error:
        if not engine.is_out_of_memory(error):
            raise
        outcome = "out_of_memory"
    if notes.so_far.memory["peak_bytes"] is None:
        notes.add(memory=_peak())
    return finish(study, key, notes.so_far, outcome, data.test.labels, folder, tested)


def _start(data: Dataset, process_started: float) -> SoFar:
    facts = {
        "started_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "environment": environment.describe(engine.accelerators(), engine.version(), engine.kernels()),
        "data_sha256": data.sha256,
        "data_source": data.came_from,
        "images_on_device": engine.keeps_images(data.train.images.nbytes),
    }
    return SoFar(process_started, facts)


def _prepare(
    study: Study, key: RunKey, data: Dataset, notes: Notes, folder: Path, check_read: Callable[[], None]
) -> tuple[keras.Model, Checkpoint]:
    """Build and compile the model, and restore any checkpoint of an earlier process."""
    own_memory.begin()
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    # Under a mixed policy, the layers that stay in float32 follow the device's default.
    engine.round_float32(POLICIES[variant.policy].products != "float32")
    try:
        model, initial_weights_sha256 = build_model(
            benchmark, variant.policy, data.num_classes, data.num_channels, key.seed
        )
    finally:
        check_read()
    notes.add(facts={"float32_products": check_float32(variant.policy)})
    compile_model(model, benchmark, variant)
    # Noted now: on JAX, a model that runs out of memory loses its values.
    notes.add(facts={"initial_weights_sha256": initial_weights_sha256, "num_parameters": model.count_params()})
    # Predict once, to trace outside every timed window and to see the output's real dtype. XLA compiles for one shape,
    # so these images have the shape of a validation batch.
    num_first = benchmark.evaluation_batch_size if engine.COMPILES_SHAPES else 1
    probabilities = engine.predict(model, WholeBatches(data.validation.images[:num_first], num_first))
    dtypes = observed_dtypes(model, str(probabilities.dtype))
    check_model(key.benchmark, benchmark, variant.policy, dtypes, probabilities)
    notes.add(facts={f"{name}_dtype": dtype for name, dtype in dtypes._asdict().items()})

    surroundings = lasting(notes.so_far.facts["environment"]) | {"initial_weights": initial_weights_sha256}
    checkpoint = Checkpoint(folder / CHECKPOINT, surroundings)
    earlier = checkpoint.restore(model)
    notes.add(earlier=earlier, epochs=earlier.epochs)
    return model, checkpoint


def _train(
    study: Study,
    key: RunKey,
    data: Dataset,
    model: keras.Model,
    checkpoint: Checkpoint,
    notes: Notes,
) -> Outcome:
    benchmark, variant, earlier = study.benchmarks[key.benchmark], study.variants[key.variant], notes.so_far.earlier
    batch_size = benchmark.batch_size * variant.batch_multiplier
    batches = ShuffledBatches(data.train, batch_size, key.seed, notes.so_far.facts["images_on_device"])
    num_epochs = benchmark.num_epochs_of(variant)
    watch = Watch(engine.gpu_place())

    def measured() -> dict[str, Any]:
        return {"memory": _peak(), "disturbance": watch.finish().worst(earlier.disturbance)}

    def after_epoch(epoch: EpochRecord) -> None:
        watch.look()
        notes.add(epochs=[*clock.epochs], **measured())
        if not clock.diverged and epoch.epoch < num_epochs:
            checkpoint.save(model, Progress(clock.epochs, notes.so_far.disturbance))

    clock = EpochClock(
        lambda: score(model, data.validation, benchmark.evaluation_batch_size)[:2], after_epoch, earlier.epochs
    )
    notes.add(startup_seconds=time.perf_counter() - notes.so_far.process_started)
    engine.reset_peak_memory()
    try:
        LOOPS[variant.loop](model, batches, range(len(clock.epochs), num_epochs), [clock])
    finally:
        notes.add(**measured())
    return "diverged" if clock.diverged else "completed"


def _where_it_diverged(study: Study, key: RunKey, data: Dataset, checkpoint: Checkpoint) -> str | None:
    """Name the first output or gradient that is not finite, with the weights from before the epoch that diverged."""
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    model, _ = build_model(benchmark, variant.policy, data.num_classes, data.num_channels, key.seed)
    compile_model(model, benchmark, variant)
    checkpoint.restore(model)
    return first_not_finite(model, data.train.images, data.train.labels)


def _peak() -> dict[str, Any]:
    return dict(zip(("peak_bytes", "peak_kind"), engine.peak_memory(), strict=True))


def _test(study: Study, key: RunKey, data: Dataset, model: keras.Model) -> Tested:
    loss, accuracy, predicted = score(model, data.test, study.benchmarks[key.benchmark].evaluation_batch_size)
    scores = {"test_loss": loss if math.isfinite(loss) else None, "test_accuracy": accuracy}
    return Tested(scores, predicted, weights_digest(model.get_weights()))


def lasting(surroundings: dict[str, Any]) -> dict[str, Any]:
    """Return what must stay the same for a run to resume; leave out memory size, commit and the GPUs' UUIDs."""
    fleeting = {"git_changed", "git_commit", "memory_bytes"}
    accelerators = [{**accelerator, "uuid": None} for accelerator in surroundings["accelerators"]]
    return {name: value for name, value in surroundings.items() if name not in fleeting} | {
        "accelerators": accelerators
    }
