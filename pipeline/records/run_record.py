"""Define what a run leaves behind: `record.json`, `epochs.csv` with a record of each epoch, and `predictions.npz`.

A record says what was planned, where the run was made, and what was measured: times, memory and scores.
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
    """Hold a part of what a run leaves behind; refuse NaN and infinity.

    Unknown keys are ignored: early records have some that nothing reads.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Planned(Part):
    """Hold the settings of one run: what the study varies, and what all its runs share.

    Compare runs only if each was made as the study plans it: `planned(study, record.key) == record.planned`.
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
    """Describe a GPU or a TPU core, as the engine and its driver report it."""

    kind: str
    name: str
    compute_capability: str
    memory_bytes: NotRequired[int | None]
    uuid: NotRequired[str | None]  # identifies the device; runs on different devices of one name are comparable


class Environment(TypedDict):
    """Hold what `pipeline.machine.environment.environment_here` returns."""

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
    """Hold how long the run took. None means unknown, or not reached by a run that ended early.

    Both times count from the start of the process: `startup_seconds` to the first step, and `run_seconds` to the end
    of the run. `run_seconds` also includes the epochs that an earlier process trained. A `too_slow` run was ended at
    the study's `max_run_seconds`, `num_stops` times in a row (0 if that was not counted). `fault` says why these times
    can't be used, or is None.
    """

    startup_seconds: Seconds | None = None
    run_seconds: Seconds
    max_run_seconds: Seconds | None
    num_stops: Count = 0
    fault: str | None


class Memory(Part):
    """Hold the bytes that the run needed at its peak, and what counted them (`peak_kind`)."""

    peak_bytes: Count | None
    peak_kind: str | None


class Scores(Part):
    """Hold what a completed run reached on the test set. Its epochs hold everything else. Accuracies are in [0, 1]."""

    test_loss: float | None = None
    test_accuracy: Share | None = None


Outcome = Literal["completed", "diverged", "out_of_memory", "too_slow"]
Loss = Annotated[float, Field(allow_inf_nan=True)]  # not finite in the last epoch of a run that diverged


class EpochRecord(Part):
    """Hold one epoch. Accuracies are in [0, 1]. Unknown values are None.

    `skipped_steps` counts from the start of the run. `since_start` counts epochs from the start of the process. After
    a resumption, it is smaller than `epoch`.
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

    `other_cpu_share` is the share in [0, 1] of the machine's CPU time that was neither idle nor this run's. It
    includes other processes and other guests of the same host. The run's children count as the run. The run's GPU is
    checked once an epoch. `num_gpu_processes` is the largest number of processes seen on it, counting this run as one.
    """

    other_cpu_share: Share | None = None
    num_gpu_processes: int | None = None

    def worst(self, other: Self | None) -> Self:
        """Return the larger of the two values of each field. `other` is from an earlier process of the same run."""
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
    """Hold one run. Accuracies are in [0, 1]. None means unknown, or not reached by a run that ended early.

    `planned` repeats the study's settings for the run. `num_epochs` is the number of epochs that the run trained.
    `float32_products` is the format, one of `FORMATS`, to which factors of float32 products were rounded. Under a mixed
    policy, this concerns the layers that stay in float32. Early records don't have it.
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
    first_not_finite: Annotated[str, Field(max_length=300)] | None = None  # where a diverged run was first not finite
    data_sha256: Sha256
    data_source: str | None = None  # the host or folder that the images came from
    images_on_device: bool = False  # all training images, for the whole run; else each batch was sent
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
    """Yield each contradiction within a record. `pipeline.comparison.finished_runs` compares it with other files."""
    if record.outcome == "completed" and record.scores.test_accuracy is None:
        yield "a completed run without test_accuracy"
    for name, expected in expected_dtypes(record.planned.policy)._asdict().items():
        found = getattr(record, f"{name}_dtype")
        allowed = {expected, "float32"} if record.planned.float32_layers else {expected}
        # Some layers of a user's model may have other dtypes.
        if found is not None and not allowed & {*found.split("+")}:
            yield f"{name}_dtype {found} under {record.planned.policy}"
    if record.outcome == "completed" and record.num_epochs != record.planned.num_epochs:
        yield f"a completed run of {record.planned.num_epochs} epochs with num_epochs {record.num_epochs}"


def write_run(
    folder: Path, record: RunRecord, epochs: Sequence[EpochRecord], labels: np.ndarray, predicted: np.ndarray
) -> None:
    """Write the files of a run into `folder`.

    Args:
        labels: integer (num_test_examples,), true classes in data set order.
        predicted: integer (num_test_examples,), each example's most probable class; empty if the run did not complete.
    """
    rows = csv_text(list(EpochRecord.model_fields), (epoch.model_dump() for epoch in epochs))
    (folder / "record.json").write_text(json.dumps(record.model_dump(), indent=2) + "\n", encoding="utf-8")
    (folder / "epochs.csv").write_text(rows, encoding="utf-8")
    np.savez_compressed(folder / "predictions.npz", labels=_narrow(labels), predicted=_narrow(predicted))


def _narrow(classes: np.ndarray) -> np.ndarray:
    """Return `classes` in the smallest integer type that holds them, which halves the archive."""
    return classes.astype(np.min_scalar_type(int(classes.max(initial=0))))
