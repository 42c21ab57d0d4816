"""The record of a run and of its epochs, as `record.json` and `epochs.csv` hold them."""

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pipeline.records.environment import as_environment
from pipeline.records.planned import Count, Planned
from pipeline.study.schema import RunKey

Outcome = Literal["completed", "diverged", "out_of_memory", "too_slow"]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0)]
# Not finite in the last epoch of a run that diverged.
Loss = Annotated[float, Field(allow_inf_nan=True)]


class EpochRecord(BaseModel):
    """One epoch. Accuracies in [0, 1]; unknown is None; `skipped_steps` counts from the start of the run.

    `since_start` counts from the start of the process: smaller than `epoch` after the run was resumed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epoch: int
    since_start: int
    train_seconds: float
    validation_seconds: Seconds
    train_loss: Loss
    train_accuracy: Share
    validation_loss: Loss
    validation_accuracy: Share
    loss_scale: float | None
    skipped_steps: int | None
    images_per_second: float


class Disturbance(BaseModel):
    """Other work on the machine during training, and what held it back; None where it can't be seen.

    `other_cpu_share` is the share in [0, 1] of the machine's CPU time that was neither idle nor this run's: other
    processes, and other guests of the same host. All processes of a run, or of its Slurm job, are this run's.
    `cpu_quota_seconds` is how long a container's CPU quota stopped its threads, `num_thermal_events` how often a core
    slowed down for heat. The GPUs of the run are looked at once an epoch: `num_gpu_processes` is the largest number of
    processes seen on one of them, this run counted as one, `gpu_throttle_reasons` all reasons seen,
    `min_gpu_clock_mhz` the lowest clock of their multiprocessors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    other_cpu_share: float | None
    cpu_quota_seconds: float | None
    num_thermal_events: int | None
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
    "num_thermal_events": sum,
    "num_gpu_processes": max,
    "gpu_throttle_reasons": lambda lists: sorted({reason for reasons in lists for reason in reasons}),
    "min_gpu_clock_mhz": min,
}


class RunRecord(BaseModel):
    """One run. Accuracies in [0, 1]; unknown is None, also what a run that ended early did not get to.

    `planned` repeats what the study said of the run; `num_epochs` is how many it trained.
    `run_seconds` is how long the whole run took, from the start of its process to its record, with the epochs that an
    earlier process trained. A run that is `too_slow` was ended at the study's `max_run_seconds`.
    `steady_epoch_seconds` is the median training time, validation apart, of all epochs but `excluded_epochs`: the
    first, and where the run was `resumed` the first after that, because they trace and compile.
    `overflow` says what becomes of a step whose gradients are not finite: only a dynamic loss scale skips it.
    `test_metrics` has what the recipe measures besides accuracy, by name; it is empty where the run has no end.
    `timing_fault` says why the times of this run can't be used, where they can't.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: Literal[7] = 7
    benchmark: str
    variant: str
    seed: int
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
    startup_seconds: Seconds | None = None
    run_seconds: Seconds
    max_run_seconds: Seconds | None
    first_epoch_seconds: Seconds | None
    steady_epoch_seconds: Seconds | None
    images_per_second: float | None
    peak_memory_bytes: Count | None
    peak_memory_kind: str | None
    weights_bytes: Count | None = None
    skipped_steps: int | None
    final_loss_scale: float | None
    final_train_loss: float | None
    final_validation_accuracy: Share | None
    final_test_loss: float | None = None
    final_test_accuracy: Share | None = None
    test_metrics: dict[str, Share] = {}
    initial_weights_sha256: str | None = None
    final_weights_sha256: str | None = None
    data_sha256: str
    resumed: bool
    excluded_epochs: list[int]
    started_at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    timing_fault: str | None
    disturbance: Disturbance
    environment: Annotated[dict[str, Any], AfterValidator(as_environment)]

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Self:
        for contradiction in _contradictions(self):
            raise ValueError(contradiction)
        return self

    @property
    def key(self) -> RunKey:
        return RunKey(self.benchmark, self.variant, self.seed)


# What only a run has that trained all its epochs.
_AT_THE_END = (
    "final_train_loss",
    "final_validation_accuracy",
    "final_test_loss",
    "final_test_accuracy",
    "final_weights_sha256",
)


def _contradictions(record: RunRecord) -> Iterator[str]:
    """Yield what a record says against itself; `pipeline.comparison.finished_runs` checks it against other files."""
    if record.outcome == "completed":
        if record.final_test_accuracy is None:
            yield "a completed run without final_test_accuracy"
        if record.num_epochs != record.planned.num_epochs:
            yield f"a completed run of {record.planned.num_epochs} epochs with num_epochs {record.num_epochs}"
        return
    if record.outcome == "too_slow" and record.run_seconds < (record.max_run_seconds or math.inf):
        yield "a run that was too slow and yet within max_run_seconds"
    for name in _AT_THE_END:
        if getattr(record, name) is not None:
            yield f"a run with outcome {record.outcome} and {name}"
    if record.test_metrics:
        yield f"a run with outcome {record.outcome} and test_metrics"
