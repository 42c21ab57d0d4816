"""A pilot: short blocks of training of every variant, in turns, each variant in a process of its own."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

import psutil
from pydantic import BaseModel, ConfigDict

from pipeline.errors import InputError
from pipeline.records.schema import Outcome
from pipeline.speed.worker import Block, Train
from pipeline.statistics.intervals import MIN_BLOCKS

BLOCK_SECONDS = 1.0  # of the baseline; long beside what it costs to begin one
MAX_TURNS = 20
HOPELESS = 3.0  # times the seconds of the baseline; further turns would be spent on what is settled

Start = Callable[[str], AbstractContextManager[Train]]  # starts the process of a variant


class PilotTrial(BaseModel):
    """A variant's blocks, one a turn. After one that failed, or was hopelessly slow, it has no more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    blocks: list[Block]

    @property
    def outcome(self) -> Outcome:
        return self.blocks[-1].outcome

    @property
    def seconds(self) -> list[float]:
        """Return the seconds of the blocks that ended well, by turn."""
        return [block.seconds for block in self.blocks if block.seconds is not None]


class Pilot(BaseModel):
    """`num_images` were trained in each block; `keeps_processes` says that all blocks of a variant share a process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_images: int
    keeps_processes: bool
    spent_seconds: float
    trials: list[PilotTrial]

    def find(self, variant: str) -> PilotTrial:
        return next(trial for trial in self.trials if trial.variant == variant)


class Processes(ExitStack):
    """The processes that train: one a variant, kept from turn to turn, or a new one for every block."""

    def __init__(self, start: Start, keep: bool) -> None:
        super().__init__()
        self.start, self.keep = start, keep
        self.kept: dict[str, Train] = {}

    def train(self, variant: str, num_images: int) -> Block:
        if not self.keep:
            with self.start(variant) as once:
                return once(num_images)
        if variant not in self.kept:
            self.kept[variant] = self.enter_context(self.start(variant))
        return self.kept[variant](num_images)

    def keep_none(self) -> None:
        """End the processes that were kept, and keep none from here on."""
        self.keep = False
        self.close()


def run_pilot(
    start: Start,
    variants: Sequence[str],
    batch_size: int,
    num_available: int,
    budget_seconds: float,
    keep_processes: bool,
    say: Callable[[str], None],
) -> Pilot:
    """Train the variants in turns, the order moved on by one each turn, until another turn would pass the budget.

    There are at least `MIN_BLOCKS` turns, whatever they cost, because fewer give no interval. A variant that fails, or
    once takes `HOPELESS` times the seconds of the baseline, has no more turns. Of the blocks of a turn only their
    ratios count, so that a machine that slows down slows all.

    Args:
        start: starts the process of a variant. The first is the baseline.
        batch_size: the largest of any variant; blocks are multiples of it.
        num_available: training examples there are.
        keep_processes: a variant keeps its process from turn to turn, as long as memory allows for all; without, every
            block has a new one.

    Raises:
        InputError: the baseline does not train, or does so no longer, or a process fails.
    """
    started = time.monotonic()
    blocks: dict[str, list[Block]] = {variant: [] for variant in variants}
    with Processes(start, keep_processes) as processes:
        smallest = batch_size * min(2, num_available // batch_size)
        first = processes.train(variants[0], smallest)
        first_seconds = _seconds_of_baseline(variants[0], first, turn=None)
        num_images = round(BLOCK_SECONDS / first_seconds * smallest / batch_size) * batch_size
        num_images = min(max(num_images, smallest), num_available // batch_size * batch_size)
        needed = 1.5 * (first.peak_memory_bytes or 0) * (len(variants) - 1)
        if processes.keep and needed > psutil.virtual_memory().available:
            say("not enough memory for a process of each variant at once: every block has a new one")
            processes.keep_none()
        turn, turn_seconds = 0, 0.0
        settled: set[str] = set()
        while turn < MIN_BLOCKS or (turn < MAX_TURNS and time.monotonic() - started + turn_seconds <= budget_seconds):
            turn_started = time.monotonic()
            place = turn % len(variants)
            for variant in [*variants[place:], *variants[:place]]:
                if variant not in settled:
                    blocks[variant].append(processes.train(variant, num_images))
            limit = HOPELESS * _seconds_of_baseline(variants[0], blocks[variants[0]][-1], turn + 1)
            settled |= {variant for variant in variants if (blocks[variant][-1].seconds or math.inf) > limit}
            turn_seconds, turn = time.monotonic() - turn_started, turn + 1
            if turn == 1 or not turn % 5:
                say(f"turn {turn}, {num_images:,} images of each variant: {time.monotonic() - started:.0f} s")
    return Pilot(
        num_images=num_images,
        keeps_processes=processes.keep,
        spent_seconds=time.monotonic() - started,
        trials=[PilotTrial(variant=variant, blocks=found) for variant, found in blocks.items()],
    )


def _seconds_of_baseline(variant: str, block: Block, turn: int | None) -> float:
    """Return those of its `block`, trained in `turn` or before the first; without them nothing can be compared."""
    if block.seconds is None:
        reason = {"out_of_memory": "does not fit into memory", "diverged": "has a loss that is not finite"}
        when = f" in turn {turn}" if turn else ""
        raise InputError(f"{variant}, the baseline, {reason[block.outcome]}{when}. Try a smaller batch.")
    return block.seconds
