"""Size blocks: the steps of each variant's, the turns of a launch, and those of them in which a variant trains."""

import math
from collections.abc import Mapping

from pipeline.records.blocks import REPEAT, Block
from pipeline.speed.worker import Task, Train

# docs/decisions/speed-in-turns.md has the components of variance these come from.
BLOCK_SECONDS = 0.2
NUM_SIZING_UNITS, NUM_SIZINGS, MAX_SIZING_SECONDS = 2, 3, 10.0
MIN_TURNS = 4
MIN_LONG_TURNS, LONG_SECONDS = 2, 1.0  # fewer will do where a block of the baseline is so long that little stalls it
MAX_TURNS_IN_A_ROW, ROW_SECONDS = 20, 10.0
VALIDATION_EVERY = 4  # turns


class Sizing:
    """The sizes of blocks, found one variant after the other; the baseline, which is the first, before all others.

    Args:
        max_steps: most steps of a block, by variant.
        unit: blocks are multiples of so many steps.
    """

    def __init__(self, max_steps: Mapping[str, int], unit: int) -> None:
        self.max_steps, self.unit = max_steps, unit
        self.baseline = next(iter(max_steps))
        self.num_steps: dict[str, int] = {}
        self.block_seconds: dict[str, float] = {}

    def first_task(self, variant: str) -> Task:
        return Task(min(NUM_SIZING_UNITS * self.unit, self.max_steps[variant]))

    def size(self, variant: str, train: Train) -> Block | None:
        """Find out how many steps make a block of `variant`; return a block that failed meanwhile."""
        task = self.first_task(variant)
        seconds: list[float] = []
        while len(seconds) < NUM_SIZINGS and sum(seconds) < MAX_SIZING_SECONDS:
            block = train(task)
            if not block.wall_seconds:
                return block
            seconds.append(block.wall_seconds)
        step_seconds = min(seconds) / task.num_steps
        num_units = max(1, round(BLOCK_SECONDS / step_seconds / self.unit))
        self.num_steps[variant] = min(num_units * self.unit, self.max_steps[variant])
        self.block_seconds[variant] = self.num_steps[variant] * step_seconds
        return None

    def min_turns(self) -> int:
        return MIN_TURNS if self.block_seconds[self.baseline] <= LONG_SECONDS else MIN_LONG_TURNS

    def turns_in_a_row(self) -> int:
        affordable = int(ROW_SECONDS / self.block_seconds[self.baseline])
        return max(min(affordable, MAX_TURNS_IN_A_ROW), self.min_turns())

    def task(self, variant: str, turn: int) -> Task | None:
        """Return what `variant` trains in `turn`; None where it waits, because its shortest block is long.

        The baseline is in every turn, because it is what others are compared with. Others are in every second, fourth
        or eighth turn, and so on, so that the turns of a slow variant are turns of every faster one.
        """
        stride = 1
        if variant not in (self.baseline, REPEAT):
            longer = self.block_seconds[variant] / max(self.block_seconds[self.baseline], BLOCK_SECONDS)
            stride = 1 << max(0, round(math.log2(longer / 2)))
        if (turn - 1) % stride:
            return None
        return Task(self.num_steps[variant], with_validation=(turn - 1) % VALIDATION_EVERY == 0)
