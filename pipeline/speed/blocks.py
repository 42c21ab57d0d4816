"""A block: some steps of one variant, and what they took. The rows of `results/speed/<benchmark>.csv`."""

from pydantic import BaseModel, ConfigDict

from pipeline.records.schema import Outcome

REPEAT = "baseline_again"  # the baseline in a second process of each launch: what chance alone does


class Block(BaseModel):
    """The message of a process after some steps of training and, in some blocks and outside their time, of prediction.

    `wall_seconds` are device-synchronised, `cpu_seconds` those of all threads of the process; both are of the training
    steps, and None where these did not end well. `num_skipped_steps` counts those that the loss scale skipped, from
    the start of the process, its warm-up included.
    `other_cpu_share`, in [0, 1], is the share of the machine's CPU time that other processes had; unknown is None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    outcome: Outcome
    num_steps: int = 0
    num_images: int = 0
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    num_validation_images: int = 0
    validation_seconds: float | None = None
    num_skipped_steps: int = 0
    loss_scale: float | None = None
    loss: float | None = None
    peak_memory_bytes: int | None = None
    peak_memory_kind: str | None = None
    other_cpu_share: float | None = None

    def seconds_of(self, num_images: int, num_validation_images: int = 0) -> float | None:
        """Return the seconds that so many images take at the pace of this block; None where that is not known."""
        if self.wall_seconds is None:
            return None
        seconds = num_images / self.num_images * self.wall_seconds
        if not num_validation_images:
            return seconds
        if self.validation_seconds is None:
            return None
        return seconds + num_validation_images / self.num_validation_images * self.validation_seconds


class PlacedBlock(Block):
    """A block with its place: the launch of processes, the turn in it, the place in the order of that turn."""

    launch: int
    turn: int
    place: int
    variant: str
