"""Define the files of a speed measurement, `blocks.csv` and `measurement.json` in `results/speed/<benchmark>`.

A block is a few training steps of one variant, timed together. A launch starts a new process for each variant. Within a
launch, each process trains several blocks.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.records.run_record import Count, Environment, Instant, Outcome, Part, Seconds, Share

REPEAT = "baseline_again"  # names the baseline's second process in each launch, which shows the effect of chance
BlockSeconds = Annotated[float, Field(ge=1e-6, le=1e9)]
MAX_LAUNCHES = 200
MAX_TURNS = 200  # per launch
Place = Annotated[int, Field(ge=0, le=10_000)]


class Block(Part):
    """Report some training steps of a process and, in some blocks, a validation that is timed separately.

    `wall_seconds`, `cpu_seconds` and `kernel_seconds` cover the training steps, and are None if the steps did not
    complete. Before the clock of `wall_seconds` starts, and before the clock stops, the process waits for the device.
    `cpu_seconds` is the CPU time of all threads of the process. `kernel_seconds` is the part of this CPU time that the
    system's kernel took.

    `validation_seconds` is the time to score `num_validation_images` images as a run does after an epoch.
    `validation_call_seconds` is the part of this time that does not depend on the number of images, or None if this
    part is unknown.

    `other_cpu_share`, in [0, 1], is the share of the machine's CPU time that other programs used, or None if unknown.
    `num_gpu_processes` is the number of processes on the GPU after the steps, where all processes of the measurement
    count as one. If other processes use the GPU, the times of the block are ignored.
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
        """Return the seconds to train on `num_images`, then validate on `num_validation_images`, at this block's pace.

        Return None if the block has no such times, or if other processes used the GPU.
        """
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
    """Hold a block with its variant (or `REPEAT`), and its launch, turn and place, which count from 1.

    `place` is the position of the variant's process in the turn or, if processes run one after another, in the launch.
    Blocks that were not trained in a turn, such as the warm-up, have turn 0 and place 0.
    """

    launch: Annotated[int, Field(ge=0, le=MAX_LAUNCHES)]
    turn: Annotated[int, Field(ge=0, le=MAX_TURNS)]
    place: Place
    variant: str


class Launch(Part):
    """Hold when a launch began, how long the launch took, and where its baseline trained.

    `images_on_device` says whether the device kept all training images.
    """

    started_at: Instant | None = None  # None if it was not recorded
    seconds: Seconds | None = None
    environment: Environment
    images_on_device: bool = False


class Circumstances(Part):
    """Hold the content of `measurement.json`: the launches of a benchmark's speed measurement.

    `num_stops` counts the measurements in a row, up to this one, in which a process was stopped at the study's
    `max_run_seconds`.
    """

    schema_version: Literal[2] = 2
    launches: Annotated[list[Launch], Field(min_length=1, max_length=MAX_LAUNCHES)]
    num_stops: Count = 0


def besides_images(seconds: float, num_images: int, fewer_seconds: float, num_fewer: int) -> float:
    """Return the part of `seconds` that does not depend on the number of images.

    This part is the intercept of the line through two timings, of `num_images` and of `num_fewer` images. A negative
    slope or intercept counts as 0.
    """
    of_image = max(seconds - fewer_seconds, 0.0) / (num_images - num_fewer)
    return max(seconds - of_image * num_images, 0.0)
