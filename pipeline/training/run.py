"""Make one run of a benchmark, a variant and a seed: read the data, train, test, and write the run's files."""

import datetime
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import engine  # first, to silence the engine's start-up messages

# isort: split
import keras

from pipeline.data import datasets
from pipeline.data.batches import ShuffledBatches
from pipeline.machine import own_memory
from pipeline.machine.disturbance import Watch
from pipeline.machine.environment import environment_here
from pipeline.machine.hardware import device_name
from pipeline.records.run_record import EpochRecord, Outcome, RunRecord
from pipeline.study.policies import POLICIES
from pipeline.study.schema import RunKey, Study
from pipeline.training.building import build_model, compile_model, weights_digest
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.clock import EpochClock
from pipeline.training.divergence import first_not_finite
from pipeline.training.evaluation import predict, score
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

    If the run diverges, or the memory does not suffice for the model, this is an outcome in the record, not an error.
    If an earlier process was interrupted, the run resumes after its last finished epoch, from the checkpoint in
    `folder`.

    Args:
        tell: called with all notes on the run, each time a note is added.
        check_read: called when data, code and model have been read; raises an error if one of them was edited.

    Raises:
        InputError: the data are missing, damaged or too few, `check_read` raised this error, the model can't be built
            or compiled, the policy is float32 but products are rounded, or `check_model` refuses the model.
    """
    process_started = time.perf_counter()
    if study.compilation_cache:
        engine.keep_compiled(COMPILED)
    run = _Run(study, key, folder, tell, process_started)
    outcome: Outcome
    tested = None
    try:
        model = run.build(check_read)
        outcome = run.train(model)
        if outcome == "diverged":
            run.notes.add(facts={"first_not_finite": run.where_it_diverged()})
        if outcome == "completed":
            tested = run.test(model)
    except Exception as error:
        if not engine.is_out_of_memory(error):
            raise
        outcome = "out_of_memory"
    if run.notes.so_far.memory["peak_bytes"] is None:
        run.notes.add(memory=_peak())
    return finish(study, key, run.notes.so_far, outcome, run.data.test.labels, folder, tested)


class _Run:
    """Hold the settings and the data of one run, and the notes on its progress."""

    def __init__(
        self, study: Study, key: RunKey, folder: Path, tell: Callable[[SoFar], None], process_started: float
    ) -> None:
        self.name, self.seed = key.benchmark, key.seed
        self.benchmark, self.variant = study.benchmarks[key.benchmark], study.variants[key.variant]
        self.data = datasets.load_dataset(self.benchmark.dataset, self.benchmark.split)
        self.environment = environment_here(engine.accelerators(), engine.version(), engine.kernels())
        self.images_on_device = engine.keeps_images(self.data.train.images.nbytes)
        facts = {
            "started_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "environment": self.environment,
            "data_sha256": self.data.sha256,
            "data_source": self.data.came_from,
            "images_on_device": self.images_on_device,
        }
        self.notes = Notes(SoFar(process_started, facts), tell)
        self.folder = folder

    def build(self, check_read: Callable[[], None]) -> keras.Model:
        """Build, compile and check the model. Restore the model if the run has a checkpoint. Return the model."""
        own_memory.begin()
        policy = self.variant.policy
        # Forbid rounding only under float32. Under a mixed policy, layers in float32 follow the device's default.
        engine.round_float32(POLICIES[policy].products != "float32")
        try:
            model, initial_weights_sha256 = self._compiled()
        finally:
            check_read()
        # Note these facts now, because on JAX a model that runs out of memory loses its values.
        self.notes.add(
            facts={
                "float32_products": check_float32(policy),
                "initial_weights_sha256": initial_weights_sha256,
                "num_parameters": model.count_params(),
            }
        )
        # Predict once, so that Keras traces the prediction outside every timed window, and to see the output's real
        # dtype. XLA compiles again for every shape, so these images have the shape of a validation batch.
        num_first = self.benchmark.evaluation_batch_size if engine.COMPILES_SHAPES else 1
        probabilities = predict(model, self.data.validation.images[:num_first], num_first)
        dtypes = observed_dtypes(model, str(probabilities.dtype))
        check_model(self.name, self.benchmark, self.variant, dtypes, probabilities)
        self.notes.add(facts={f"{name}_dtype": dtype for name, dtype in dtypes._asdict().items()})
        surroundings = (device_name(self.environment), self.environment["driver"], initial_weights_sha256)
        self.checkpoint = Checkpoint(self.folder / CHECKPOINT, surroundings)
        earlier = self.checkpoint.restore(model)
        self.notes.add(earlier=earlier, epochs=earlier.epochs)
        return model

    def _compiled(self) -> tuple[keras.Model, str]:
        classes, channels = self.data.num_classes, self.data.num_channels
        policy, float32_layers = self.variant.precision
        model, digest = build_model(self.benchmark, policy, classes, channels, self.seed, float32_layers)
        compile_model(model, self.benchmark, self.variant)
        return model, digest

    def train(self, model: keras.Model) -> Outcome:
        """Train the remaining epochs, add each epoch to the notes when it ends, and return the outcome."""
        batch_size = self.benchmark.batch_size * self.variant.batch_multiplier
        batches = ShuffledBatches(self.data.train, batch_size, self.seed, self.images_on_device)
        num_epochs, earlier = self.benchmark.num_epochs_of(self.variant), self.notes.so_far.earlier
        watch = Watch(engine.gpu_place())

        def note(**values: Any) -> None:
            self.notes.add(memory=_peak(), disturbance=watch.finish().worst(earlier.disturbance), **values)

        def after_epoch(epoch: EpochRecord) -> None:
            watch.look()
            note(epochs=[*clock.epochs])
            if not clock.diverged and epoch.epoch < num_epochs:
                self.checkpoint.save(model, Progress(clock.epochs, self.notes.so_far.disturbance))

        def validate() -> tuple[float, float]:
            return score(model, self.data.validation, self.benchmark.evaluation_batch_size)[:2]

        clock = EpochClock(validate, after_epoch, earlier.epochs)
        self.notes.add(startup_seconds=time.perf_counter() - self.notes.so_far.process_started)
        engine.reset_peak_memory()
        try:
            LOOPS[self.variant.loop](model, batches, range(len(clock.epochs), num_epochs), [clock])
        finally:
            note()
        return "diverged" if clock.diverged else "completed"

    def where_it_diverged(self) -> str | None:
        """Name the first output or gradient that is not finite, or return None if all are finite.

        Use the weights from before the epoch that diverged.
        """
        model, _ = self._compiled()
        self.checkpoint.restore(model)
        return first_not_finite(model, self.data.train.images, self.data.train.labels)

    def test(self, model: keras.Model) -> Tested:
        loss, accuracy, predicted = score(model, self.data.test, self.benchmark.evaluation_batch_size)
        scores = {"test_loss": loss if math.isfinite(loss) else None, "test_accuracy": accuracy}
        return Tested(scores, predicted, weights_digest(model.get_weights()))


def _peak() -> dict[str, Any]:
    return dict(zip(("peak_bytes", "peak_kind"), engine.peak_memory(), strict=True))
