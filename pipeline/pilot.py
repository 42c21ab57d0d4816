"""A pilot: short blocks of training of every variant, in turns, each variant in a process of its own."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

import psutil
from pydantic import BaseModel, ConfigDict

from pipeline.errors import InputError
from pipeline.records import Outcome
from pipeline.statistics import MIN_BLOCKS
from pipeline.worker import Block, Train

BLOCK_SECONDS = 1.0  # of the baseline; long beside what it costs to begin one
MAX_TURNS = 20
HOPELESS = 3.0  # times the seconds of the baseline; further turns would be spent on what is settled


class Trial(BaseModel):
    """A variant's blocks, one a turn. After one that failed, or was hopelessly slow, it has no more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    blocks: list[Block]

    @property
    def outcome(self) -> Outcome:
        return self.blocks[-1].outcome

    @property
    def seconds(self) -> list[float]:
        """Of the blocks that ended well, by turn."""
        return [block.seconds for block in self.blocks if block.seconds is not None]


class Pilot(BaseModel):
    """`num_images` were trained in each block; `keeps_processes` says that all blocks of a variant share a process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_images: int
    keeps_processes: bool
    spent_seconds: float
    trials: list[Trial]

    def find(self, variant: str) -> Trial:
        return next(trial for trial in self.trials if trial.variant == variant)


def measure(
    start: Callable[[str], AbstractContextManager[Train]],
    variants: Sequence[str],
    batch_size: int,
    num_available: int,
    budget_seconds: float,
    keep_processes: bool,
    say: Callable[[str], None],
) -> Pilot:
    """Trains the variants in turns, the order moved on by one each turn, until another turn would pass the budget.

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
    with ExitStack() as stack:
        workers: dict[str, Train] = {}

        def train(variant: str, num_images: int) -> Block:
            if keep_processes:
                if variant not in workers:
                    workers[variant] = stack.enter_context(start(variant))
                return workers[variant](num_images)
            with start(variant) as once:
                return once(num_images)

        smallest = batch_size * min(2, num_available // batch_size)
        first = train(variants[0], smallest)
        first_seconds = _seconds_of_baseline(variants[0], first, turn=None)
        num_images = round(BLOCK_SECONDS / first_seconds * smallest / batch_size) * batch_size
        num_images = min(max(num_images, smallest), num_available // batch_size * batch_size)
        needed = 1.5 * (first.peak_memory_bytes or 0) * (len(variants) - 1)
        if keep_processes and needed > psutil.virtual_memory().available:
            keep_processes = False
            say("not enough memory for a process of each variant at once: every block has a new one")
            workers.clear()
            stack.close()
        turn, turn_seconds = 0, 0.0
        settled: set[str] = set()
        while turn < MIN_BLOCKS or (turn < MAX_TURNS and time.monotonic() - started + turn_seconds <= budget_seconds):
            turn_started = time.monotonic()
            place = turn % len(variants)
            for variant in [*variants[place:], *variants[:place]]:
                if variant not in settled:
                    blocks[variant].append(train(variant, num_images))
            limit = HOPELESS * _seconds_of_baseline(variants[0], blocks[variants[0]][-1], turn + 1)
            settled |= {variant for variant in variants if (blocks[variant][-1].seconds or math.inf) > limit}
            turn_seconds, turn = time.monotonic() - turn_started, turn + 1
            if turn == 1 or not turn % 5:
                say(f"turn {turn}, {num_images:,} images of each variant: {time.monotonic() - started:.0f} s")
    return Pilot(
        num_images=num_images,
        keeps_processes=keep_processes,
        spent_seconds=time.monotonic() - started,
        trials=[Trial(variant=variant, blocks=found) for variant, found in blocks.items()],
    )


def _seconds_of_baseline(variant: str, block: Block, turn: int | None) -> float:
    """Those of its `block`, trained in `turn` or before the first; without them nothing can be compared."""
    if block.seconds is None:
        reason = {"out_of_memory": "does not fit into memory", "diverged": "has a loss that is not finite"}
        when = f" in turn {turn}" if turn else ""
        raise InputError(f"{variant}, the baseline, {reason[block.outcome]}{when}. Try a smaller batch.")
    return block.seconds
