"""Define the files of a run: `record.json`, `epochs.csv` with a row per epoch, and `predictions.npz`.

`record.json` holds the run's settings, the machine and software that made the run, and the measured times, memory and
scores.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NotRequired, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from pipeline.files.untrusted import Sha256
from pipeline.files.writing import csv_text
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import LossScale, expected_dtypes

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]


class Part(BaseModel):
    """Serve as the base class of records: immutable, and without NaN or infinity unless a field allows them.

    Ignore unknown keys, because early records have keys that are no longer used.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Planned(Part):
    """Hold the study's settings for one run.

    `check_comparable` in `pipeline.comparison.finished_runs` refuses a run if `record.planned` differs from
    `planned(study, record.key)`.
    """

    campaign: str
    policy: str
    learning_rate_multiplier: float = 1.0
    float32_layers: list[str] = []
    xla: bool = False
    loop: Literal["fit", "custom"]
    loss_scale: LossScale
    batch_size: Count
    image_size: Count
    num_train_examples: Count
    num_validation_examples: Count
    num_epochs: Count
    steps_per_epoch: Count


def planned(study: Study, key: RunKey) -> Planned:
    """Return the settings that `study` has for the run `key`."""
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    return Planned(
        campaign=study.campaign,
        policy=variant.policy,
        learning_rate_multiplier=variant.learning_rate_multiplier,
        float32_layers=variant.float32_layers,
        xla=variant.xla,
        loop=variant.loop,
        loss_scale=variant.loss_scale,
        batch_size=benchmark.batch_size * variant.batch_multiplier,
        image_size=benchmark.image_size,
        num_train_examples=benchmark.split.num_train_examples,
        num_validation_examples=benchmark.split.num_validation_examples,
        num_epochs=benchmark.num_epochs_of(variant),
        steps_per_epoch=benchmark.steps_per_epoch(variant.batch_multiplier),
    )


class Accelerator(TypedDict):
    """Describe a GPU or a TPU core, as the engine and the driver report."""

    kind: str
    name: str
    compute_capability: str
    memory_bytes: NotRequired[int | None]
    uuid: NotRequired[str | None]  # not compared: devices of one name count as equal


class Environment(TypedDict):
    """Describe the machine and software that made a run, as `pipeline.machine.environment.environment_here` does."""

    python: str
    operating_system: str
    machine: str
    cpu: str | None
    cpu_features: list[str] | None
    num_cpus: int | None
    memory_bytes: int
    accelerators: list[Accelerator]
    driver: str | None
    packages: dict[str, str]
    kernels: str
    variables: NotRequired[dict[str, str]]  # environment variables; early records have none
    runtime: str
    lock_sha256: Sha256 | None
    image: dict[str, str | bool | None] | None
    git_commit: str | None
    git_changed: NotRequired[list[str]]  # files of code that differed from the commit; early records don't say


class Times(Part):
    """Hold how long the run took.

    `startup_seconds` and `run_seconds` count from when the process began the run: `startup_seconds` until training
    began, or None if training did not begin, and `run_seconds` until the run ended. `run_seconds` also includes the
    epochs that an earlier process trained. `max_run_seconds` is the study's limit, or None without a limit. A
    `too_slow` run was stopped at this limit `num_stops` times in a row (0 in early records, which did not count the
    stops). `fault` says why these times can't be used, or is None.
    """

    startup_seconds: Seconds | None = None
    run_seconds: Seconds
    max_run_seconds: Seconds | None
    num_stops: Count = 0
    fault: str | None


class Memory(Part):
    """Hold the run's peak memory, and how this memory was counted (`peak_kind`).

    The kind "allocator" is the count of the accelerator's allocator. The kind "own_share" is the memory that the
    process took after it had loaded the engine and the data. Unknown values are None.
    """

    peak_bytes: Count | None
    peak_kind: str | None


class Scores(Part):
    """Hold a completed run's mean loss, and accuracy in [0, 1], on the test set.

    Other runs have neither. The loss is also None if it is not finite.
    """

    test_loss: float | None = None
    test_accuracy: Share | None = None


Outcome = Literal["completed", "diverged", "out_of_memory", "too_slow"]
Loss = Annotated[float, Field(allow_inf_nan=True)]  # not finite in the last epoch of a run that diverged


class EpochRecord(Part):
    """Hold one epoch. Accuracies are in [0, 1]. Unknown values are None.

    `skipped_steps` counts from the start of the run. `since_start` counts epochs from the start of the process, so in a
    resumed run `since_start` is smaller than `epoch`.
    """

    epoch: Count
    since_start: Count
    train_seconds: Annotated[Seconds, Field(ge=1e-6)]
    validation_seconds: Seconds
    train_loss: Loss
    train_accuracy: Share
    validation_loss: Loss
    validation_accuracy: Share
    loss_scale: float | None
    skipped_steps: Count | None


class Disturbance(Part):
    """Report how much other work the machine did during training. A value that can't be measured is None.

    `other_cpu_share`, in [0, 1], is the share of the machine's CPU time that was neither idle nor used by this run and
    its child processes. Other processes and other guests of the same host count. `num_gpu_processes` is the largest
    number of processes found on the run's GPU after an epoch, where this run counts as one process.
    """

    other_cpu_share: Share | None = None
    num_gpu_processes: int | None = None

    def worst(self, other: Self | None) -> Self:
        """Return, for each field, the larger of two values: ours, and that of an earlier process of the same run."""
        theirs = other.model_dump() if other else {}
        known = {name: {value, theirs.get(name)} - {None} for name, value in self}
        return type(self).model_validate({name: max(values, default=None) for name, values in known.items()})


def _instant(text: str) -> str:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo != UTC or instant.isoformat(timespec="seconds") != text:
        raise ValueError("must be a time as in 2026-01-01T00:00:00+00:00")
    return text


Instant = Annotated[str, AfterValidator(_instant)]


class RunRecord(Part):
    """Hold the content of `record.json`. None means unknown, or not reached by a run that ended early.

    `num_epochs` is the number of epochs that the run trained. `float32_products` is the format, one of `FORMATS` in
    `pipeline.study.policies`, to which the device rounded the factors of float32 products. Under a mixed policy, only
    layers that stay in float32 have such products. Early records don't have this field.
    """

    schema_version: Literal[14] = 14
    benchmark: str
    variant: str
    seed: Count
    outcome: Outcome
    planned: Planned
    compute_dtype: str | None = None
    variable_dtype: str | None = None
    output_dtype: str | None = None
    float32_products: str | None = None
    num_parameters: Count | None = None
    num_test_examples: Count
    num_epochs: Count
    times: Times
    memory: Memory
    scores: Scores
    initial_weights_sha256: Sha256 | None = None
    final_weights_sha256: Sha256 | None = None
    first_not_finite: Annotated[str, Field(max_length=300)] | None = None  # the name of an output or gradient
    data_sha256: Sha256
    data_source: str | None = None  # the host or folder that the images came from
    images_on_device: bool = False  # whether the device kept all training images; if not, each batch was sent
    resumed: bool
    started_at: Instant
    disturbance: Disturbance
    environment: Environment

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Self:
        for contradiction in _contradictions(self):
            raise ValueError(contradiction)
        return self

    @property
    def key(self) -> RunKey:
        return RunKey(self.benchmark, self.variant, self.seed)


def _contradictions(record: RunRecord) -> Iterator[str]:
    """Yield a message for each contradiction within the record."""
    if record.outcome == "completed" and record.scores.test_accuracy is None:
        yield "a completed run without test_accuracy"
    for name, expected in expected_dtypes(record.planned.policy)._asdict().items():
        found = getattr(record, f"{name}_dtype")
        allowed = {expected, "float32"} if record.planned.float32_layers else {expected}
        # "+" joins the dtypes of a model whose layers differ. Some layers of a user's model may have other dtypes.
        if found is not None and not allowed & {*found.split("+")}:
            yield f"{name}_dtype {found} under {record.planned.policy}"
    if record.outcome == "completed" and record.num_epochs != record.planned.num_epochs:
        yield f"a completed run of {record.planned.num_epochs} epochs with num_epochs {record.num_epochs}"


def write_run(
    folder: Path, record: RunRecord, epochs: Sequence[EpochRecord], labels: np.ndarray, predicted: np.ndarray
) -> None:
    """Write the files of a run into `folder`.

    Args:
        labels: integer (num_test_examples,), the true classes in the order of the test set.
        predicted: integer (num_test_examples,), each example's most probable class; empty if the run did not complete.
    """
    rows = csv_text(list(EpochRecord.model_fields), (epoch.model_dump() for epoch in epochs))
    (folder / "record.json").write_text(json.dumps(record.model_dump(), indent=2) + "\n", encoding="utf-8")
    (folder / "epochs.csv").write_text(rows, encoding="utf-8")
    np.savez_compressed(folder / "predictions.npz", labels=_narrow(labels), predicted=_narrow(predicted))


def _narrow(classes: np.ndarray) -> np.ndarray:
    """Return `classes` in the smallest integer type that holds them, to keep the file small."""
    return classes.astype(np.min_scalar_type(int(classes.max(initial=0))))
