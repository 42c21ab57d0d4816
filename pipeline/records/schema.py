"""The record of a run and of its epochs, as `record.json` and `epochs.csv` hold them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from pipeline.files.untrusted import Sha256
from pipeline.records.environment import as_environment
from pipeline.records.measured import Memory, Scores, Seconds, Share, Times, mean_cross_entropy, of_float32
from pipeline.records.planned import Count, Part, Planned
from pipeline.study.schema import RunKey
from pipeline.study.variant import expected_dtypes

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
    `cpu_quota_seconds` is how long a container's CPU quota stopped its threads, `num_thermal_events` how often a core
    slowed down for heat. The GPUs of the run are looked at once an epoch: `num_gpu_processes` is the largest number of
    processes seen on one of them, this run counted as one, `gpu_throttle_reasons` all reasons seen,
    `min_gpu_clock_mhz` the lowest clock of their multiprocessors.
    """

    other_cpu_share: Share | None
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


def _instant(text: str) -> str:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo != UTC or instant.isoformat(timespec="seconds") != text:
        raise ValueError("must be a time as in 2026-01-01T00:00:00+00:00")
    return text


class RunRecord(Part):
    """One run. Accuracies in [0, 1]; unknown is None, also what a run that ended early did not get to.

    `planned` repeats what the study said of the run; `num_epochs` is how many it trained.
    A `warm` run's process was forked from one that had imported the engine: its `times.startup_seconds` are fewer.
    `overflow` says what becomes of a step whose gradients are not finite: only a dynamic loss scale skips it.
    """

    schema_version: Literal[9] = 9
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
    data_sha256: Sha256
    data_source: str | None = None  # the host or folder that the images came from
    resumed: bool
    warm: bool = False
    started_at: Annotated[str, AfterValidator(_instant)]
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
