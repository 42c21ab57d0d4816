"""Define the speed stage's files: `results/speed/<benchmark>/blocks.csv`, a row per block, and `measurement.json`.

A block consists of some steps of one variant, with the time that they took.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.records.run_record import Count, Environment, Instant, Outcome, Part, Seconds, Share

REPEAT = "baseline_again"  # the baseline in a second process of each launch: shows the effect of chance
BlockSeconds = Annotated[float, Field(ge=1e-6, le=1e9)]
MAX_LAUNCHES = 200
MAX_TURNS = 200  # per launch
Place = Annotated[int, Field(ge=0, le=10_000)]


class Block(Part):
    """Report some training steps of a process and, in some blocks, a validation that is timed separately.

    `wall_seconds` are device-synchronized. `cpu_seconds` is the CPU time of all threads of the process, and
    `kernel_seconds` the part of it spent in the system's kernel. All three cover the training steps, and are None if
    the steps did not complete. `validation_seconds` is the time of one call, like the call after an epoch. If the call
    predicts fewer images than after an epoch, `validation_call_seconds` is the part that would not grow with more
    images. `other_cpu_share`, in [0, 1], is the share of the machine's CPU time that other processes used, or None if
    unknown. `num_gpu_processes` is the number of processes on the GPU after the steps, counting the launch's as one.
    If there are others, the block says nothing about speed.
    """

    outcome: Outcome
    num_steps: Count = 0
    num_images: Count = 0
    wall_seconds: BlockSeconds | None = None
    cpu_seconds: Seconds | None = None
    kernel_seconds: Seconds | None = None
    num_validation_images: Count = 0
    validation_seconds: BlockSeconds | None = None
    validation_call_seconds: Seconds | None = None
    loss: float | None = None
    peak_memory_bytes: Count | None = None
    peak_memory_kind: str | None = None
    other_cpu_share: Share | None = None
    num_gpu_processes: Count | None = None

    @property
    def shares_gpu(self) -> bool:
        return (self.num_gpu_processes or 1) > 1

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Self:
        if (self.outcome == "completed") != (self.wall_seconds is not None):
            raise ValueError("a block must have wall_seconds if it completed, and must not otherwise")
        if self.wall_seconds is not None and not self.num_images:
            raise ValueError("a block has wall_seconds but no images")
        return self

    def seconds_of(self, num_images: int, num_validation_images: int = 0) -> float | None:
        """Return the seconds for `num_images` and any validation at this block's pace, or None if unknown."""
        if self.wall_seconds is None or self.shares_gpu:
            return None
        seconds = num_images / self.num_images * self.wall_seconds
        if not num_validation_images:
            return seconds
        if self.validation_seconds is None:
            return None
        once = self.validation_call_seconds or 0.0
        return seconds + once + num_validation_images / self.num_validation_images * (self.validation_seconds - once)


class PlacedBlock(Block):
    """Hold a block and its place: the launch of processes, the turn in the launch, the position in the turn."""

    launch: Annotated[int, Field(ge=0, le=MAX_LAUNCHES)]
    turn: Annotated[int, Field(ge=0, le=MAX_TURNS)]
    place: Place
    variant: str


class Launch(Part):
    """Hold when a launch of processes began, how long it took, and where its baseline trained.

    `images_on_device` says whether all training images stayed on the device, as in a run's record.
    """

    started_at: Instant | None = None  # None if it was not recorded
    seconds: Seconds | None = None
    environment: Environment
    images_on_device: bool = False


class Circumstances(Part):
    """Hold what a benchmark's `blocks.csv` does not say.

    `num_stops` counts how many measurements in a row ended with a process stopped at the study's time limit.
    """

    schema_version: Literal[2] = 2
    launches: Annotated[list[Launch], Field(min_length=1, max_length=MAX_LAUNCHES)]
    num_stops: Count = 0


def besides_images(seconds: float, num_images: int, fewer_seconds: float, num_fewer: int) -> float:
    """Return the part of `seconds` that does not depend on the number of images.

    It is the intercept of the line through two timings.
    """
    of_image = max(seconds - fewer_seconds, 0.0) / (num_images - num_fewer)
    return max(seconds - of_image * num_images, 0.0)
