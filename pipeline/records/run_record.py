"""The record of a run and of its epochs, as `record.json` and `epochs.csv` hold them.

A record says what was planned, where it ran, and what was measured: its times, its memory and its scores.
"""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from pipeline.files.untrusted import Sha256
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import LossScale, expected_dtypes

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]


class Part(BaseModel):
    """Hold a part of what a run leaves behind: refuse unknown keys, and take no NaN for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Planned(Part):
    """The settings of one run: what the study varies, and what all its runs share.

    Runs may be compared where each was made as the study plans it: `planned(study, record.key) == record.planned`.
    """

    campaign: str
    devices: int
    policy: str
    learning_rate_multiplier: float = 1.0
    tf32: bool
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
    """Return how `study` wants the run `key` made."""
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    return Planned(
        campaign=study.campaign,
        devices=study.devices,
        policy=variant.policy,
        learning_rate_multiplier=variant.learning_rate_multiplier,
        tf32=variant.tf32,
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
    """A GPU or a TPU core, as the engine and its driver tell of it."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[misc]

    kind: str
    name: str
    compute_capability: str
    memory_bytes: NotRequired[int | None]
    uuid: NotRequired[str | None]  # tells which one it was; runs on another of the same name are comparable


class StableEnvironment(TypedDict):
    """The part of `pipeline.machine.environment.describe` that stays the same from run to run: all but the load."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[misc]

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
    variables: NotRequired[dict[str, str]]  # of the environment; what was made early has none
    runtime: str
    lock_sha256: Sha256 | None
    image: dict[str, str | bool | None] | None
    git_commit: str | None


class Environment(StableEnvironment):
    load_average: float


# By which a run may outlast its limit: it counts from when its process had told where it trains.
OVERTIME_SECONDS = 60.0


def mean_cross_entropy(loss: float) -> float:
    """Return `loss`. Raise `ValueError` if it is finite and no mean of cross-entropies."""
    if math.isfinite(loss) and not 0 <= loss <= 745:  # the smallest double costs that much
        raise ValueError(f"{loss:g} is no mean cross-entropy")
    return loss


def of_float32(loss: float) -> float:
    """Return `loss`, negative where a model of the user's makes it so. Raise `ValueError` if it is no float32."""
    if math.isfinite(loss) and abs(loss) > 3.5e38:
        raise ValueError(f"{loss:g} is no float32")
    return loss


class Times(Part):
    """Hold how long the run and its epochs took. Unknown is None, also what a run that ended early did not get to.

    `startup_seconds` is from the start of the process to the first step. `run_seconds` is how long the whole run took,
    from the start of its process to its record, with the epochs that an earlier process trained. A run that is
    `too_slow` was ended at the study's `max_run_seconds`.
    `steady_epoch_seconds` is the median training time, validation apart, of all epochs but `excluded_epochs`: the
    first, and where the run was resumed the first after that, because they trace and compile.
    `fault` says why these times can't be used, where they can't.
    """

    startup_seconds: Seconds | None = None
    first_epoch_seconds: Seconds | None
    steady_epoch_seconds: Seconds | None
    excluded_epochs: list[int]
    run_seconds: Seconds
    max_run_seconds: Seconds | None
    fault: str | None

    def contradictions(self, outcome: str) -> Iterator[str]:
        """Yield what the times say against the outcome of their run."""
        if outcome == "too_slow" and self.run_seconds < (self.max_run_seconds or math.inf):
            yield "a run that was too slow and yet within max_run_seconds"
        if outcome != "too_slow" and self.run_seconds > (self.max_run_seconds or math.inf) + OVERTIME_SECONDS:
            yield f"a run that is {outcome} and yet lasted longer than max_run_seconds"
        if (self.startup_seconds or 0) > self.run_seconds:
            yield "startup_seconds longer than run_seconds"


class Memory(Part):
    """Hold the bytes that the run needed: at its peak, where `peak_kind` says who counted them, and for its weights."""

    peak_bytes: Count | None
    peak_kind: str | None
    weights_bytes: Count | None = None


class Scores(Part):
    """Hold what the run had reached by the end of its last epoch. Accuracies in [0, 1].

    `skipped_steps` counts from the start of the run. Every other score but the loss scale is of a completed run alone.
    """

    loss_scale: float | None
    skipped_steps: Count | None
    train_loss: Annotated[float, AfterValidator(of_float32)] | None = None
    validation_accuracy: Share | None = None
    test_loss: Annotated[float, AfterValidator(mean_cross_entropy)] | None = None
    test_accuracy: Share | None = None

    def contradictions(self, outcome: str) -> Iterator[str]:
        """Yield what the scores say against the outcome of their run."""
        if outcome == "completed":
            if self.test_accuracy is None:
                yield "a completed run without test_accuracy"
            return
        for name, value in self.model_dump(exclude={"loss_scale", "skipped_steps"}).items():
            if value is not None:
                yield f"a run with outcome {outcome} and {name}"


Outcome = Literal["completed", "diverged", "out_of_memory", "too_slow"]
_MAY_DIVERGE = Field(allow_inf_nan=True)  # in the last epoch of a run that diverged


class EpochRecord(Part):
    """One epoch. Accuracies in [0, 1]; unknown is None; `skipped_steps` counts from the start of the run.

    `since_start` counts from the start of the process: smaller than `epoch` after the run was resumed.
    """

    epoch: Count
    since_start: Count
    train_seconds: Annotated[Seconds, Field(ge=1e-6)]
    validation_seconds: Seconds
    train_loss: Annotated[float, _MAY_DIVERGE, AfterValidator(of_float32)]
    train_accuracy: Share
    validation_loss: Annotated[float, _MAY_DIVERGE, AfterValidator(mean_cross_entropy)]
    validation_accuracy: Share
    loss_scale: float | None
    skipped_steps: Count | None


class Disturbance(Part):
    """Other work on the machine during training, and what held it back; None where it can't be seen.

    `other_cpu_share` is the share in [0, 1] of the machine's CPU time that was neither idle nor this run's: other
    processes, and other guests of the same host. A run's children are this run's.
    `cpu_quota_seconds` is how long a container's CPU quota stopped its threads. The GPUs of the run are looked at once
    an epoch: `num_gpu_processes` is the largest number of processes seen on one of them, this run counted as one,
    `gpu_throttle_reasons` all reasons seen, `min_gpu_clock_mhz` the lowest clock of their multiprocessors.
    """

    other_cpu_share: Share | None
    cpu_quota_seconds: float | None
    num_gpu_processes: int | None
    gpu_throttle_reasons: list[str] | None
    min_gpu_clock_mhz: int | None

    def worst(self, other: Self | None) -> Self:
        """Return the worse of each quantity, for a run that two processes trained one after the other."""
        known = {
            name: [value for value in (getattr(self, name), getattr(other, name, None)) if value is not None]
            for name in _WORST_OF
        }
        return type(self).model_validate(
            {name: of(known[name]) if known[name] else None for name, of in _WORST_OF.items()}
        )


_WORST_OF: dict[str, Callable[[list[Any]], Any]] = {
    "other_cpu_share": max,
    "cpu_quota_seconds": sum,
    "num_gpu_processes": max,
    "gpu_throttle_reasons": lambda lists: sorted({reason for reasons in lists for reason in reasons}),
    "min_gpu_clock_mhz": min,
}


def _instant(text: str) -> str:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo != UTC or instant.isoformat(timespec="seconds") != text:
        raise ValueError("must be a time as in 2026-01-01T00:00:00+00:00")
    return text


Instant = Annotated[str, AfterValidator(_instant)]


class RunRecord(Part):
    """One run. Accuracies in [0, 1]; unknown is None, also what a run that ended early did not get to.

    `planned` repeats what the study said of the run; `num_epochs` is how many it trained.
    A `warm` run's process was forked from one that had imported the engine: its `times.startup_seconds` are fewer.
    `overflow` says what becomes of a step whose gradients are not finite: only a dynamic loss scale skips it.
    """

    schema_version: Literal[12] = 12
    benchmark: str
    variant: str
    seed: Count
    outcome: Outcome
    planned: Planned
    compute_dtype: str | None = None
    variable_dtype: str | None = None
    output_dtype: str | None = None
    initial_loss_scale: float | None = None
    overflow: Literal["step skipped", "step taken"]
    num_parameters: Count | None = None
    num_test_examples: Count
    num_epochs: Count
    times: Times
    memory: Memory
    scores: Scores
    initial_weights_sha256: Sha256 | None = None
    final_weights_sha256: Sha256 | None = None
    first_not_finite: Annotated[str, Field(max_length=300)] | None = None  # of a run that diverged: what was so first
    data_sha256: Sha256
    data_source: str | None = None  # the host or folder that the images came from
    images_on_device: bool = False  # all training images, for the whole run; else each batch was sent
    resumed: bool
    warm: bool = False
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
    """Yield what a record says against itself; `pipeline.comparison.finished_runs` checks it against other files."""
    yield from record.times.contradictions(record.outcome)
    yield from record.scores.contradictions(record.outcome)
    for name, expected in expected_dtypes(record.planned.policy)._asdict().items():
        found = getattr(record, f"{name}_dtype")
        if found is not None and expected not in found.split("+"):  # some layers of a user's model may have others
            yield f"{name}_dtype {found} under {record.planned.policy}"
    if record.outcome != "completed":
        if record.final_weights_sha256 is not None:  # of a run that trained all its epochs
            yield f"a run with outcome {record.outcome} and final_weights_sha256"
    elif record.num_epochs != record.planned.num_epochs:
        yield f"a completed run of {record.planned.num_epochs} epochs with num_epochs {record.num_epochs}"
