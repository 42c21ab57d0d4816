"""The parts of a run's record that hold what was measured: its times, its memory and its scores.

A field whose name would not say enough in a table by itself names the column of `runs.csv` that holds it.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pipeline.records.planned import Count, Part

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
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


_TrainLoss = Annotated[float, AfterValidator(of_float32)]
_TestLoss = Annotated[float, AfterValidator(mean_cross_entropy)]


class Measured(Part):
    """Hold a part of the record. Unknown is None, also what a run that ended early did not get to."""

    @classmethod
    def columns(cls) -> dict[str, str]:
        """Return the names of the fields by the columns of `runs.csv`."""
        return {field.serialization_alias or name: name for name, field in cls.model_fields.items()}

    def cells(self) -> dict[str, Any]:
        """Return the values by the columns of `runs.csv`."""
        return self.model_dump(by_alias=True)


class Times(Measured):
    """Hold how long the run and its epochs took.

    `startup_seconds` is from the start of the process to the first step. `run_seconds` is how long the whole run took,
    from the start of its process to its record, with the epochs that an earlier process trained. A run that is
    `too_slow` was ended at the study's `max_run_seconds`.
    `steady_epoch_seconds` is the median training time, validation apart, of all epochs but `excluded_epochs`: the
    first, and where the run was resumed the first after that, because they trace and compile. In `runs.csv` both are
    after the study's `comparison.num_warmup_epochs`.
    `fault` says why these times can't be used, where they can't.
    """

    startup_seconds: Seconds | None = None
    first_epoch_seconds: Seconds | None
    steady_epoch_seconds: Seconds | None
    excluded_epochs: list[int]
    run_seconds: Seconds
    max_run_seconds: Seconds | None
    fault: str | None = Field(serialization_alias="timing_fault")

    def contradictions(self, outcome: str) -> Iterator[str]:
        """Yield what the times say against the outcome of their run."""
        if outcome == "too_slow" and self.run_seconds < (self.max_run_seconds or math.inf):
            yield "a run that was too slow and yet within max_run_seconds"
        if outcome != "too_slow" and self.run_seconds > (self.max_run_seconds or math.inf) + OVERTIME_SECONDS:
            yield f"a run that is {outcome} and yet lasted longer than max_run_seconds"
        if (self.startup_seconds or 0) > self.run_seconds:
            yield "startup_seconds longer than run_seconds"


class Memory(Measured):
    """Hold the bytes that the run needed: at its peak, where `peak_kind` says who counted them, and for its weights."""

    peak_bytes: Count | None = Field(serialization_alias="peak_memory_bytes")
    peak_kind: str | None = Field(serialization_alias="peak_memory_kind")
    weights_bytes: Count | None = None


class Scores(Measured):
    """Hold what the run had reached by the end of its last epoch. Accuracies in [0, 1].

    `skipped_steps` counts from the start of the run. Every other score but the loss scale is of a completed run alone.
    """

    loss_scale: float | None = Field(serialization_alias="final_loss_scale")
    skipped_steps: Count | None
    train_loss: _TrainLoss | None = Field(None, serialization_alias="final_train_loss")
    validation_accuracy: Share | None = Field(None, serialization_alias="final_validation_accuracy")
    test_loss: _TestLoss | None = Field(None, serialization_alias="final_test_loss")
    test_accuracy: Share | None = Field(None, serialization_alias="final_test_accuracy")

    def contradictions(self, outcome: str) -> Iterator[str]:
        """Yield what the scores say against the outcome of their run."""
        if outcome == "completed":
            if self.test_accuracy is None:
                yield "a completed run without test_accuracy"
            return
        for name, value in self.model_dump(exclude={"loss_scale", "skipped_steps"}).items():
            if value is not None:
                yield f"a run with outcome {outcome} and {name}"
