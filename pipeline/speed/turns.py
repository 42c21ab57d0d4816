"""Measure the speed of variants in turns: short blocks of each, in a balanced order, over several launches."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple, cast

import psutil

from pipeline.speed.blocks import REPEAT, Block, PlacedBlock, Task
from pipeline.speed.circumstances import EndReason
from pipeline.speed.worker import Train

# docs/decisions/speed-in-turns.md has the components of variance these come from.
BLOCK_SECONDS = 0.2
NUM_SIZING_UNITS, NUM_SIZINGS, MAX_SIZING_SECONDS = 2, 3, 10.0
MIN_LAUNCHES, MAX_LAUNCHES = 2, 8
MIN_TURNS, MAX_TURNS = 4, 200  # of a launch side by side
MIN_LONG_TURNS, LONG_SECONDS = 2, 1.0  # fewer will do where a block of the baseline is so long that little stalls it
MAX_TURNS_IN_A_ROW, ROW_SECONDS, MAX_ROWS = 20, 10.0, 20
VALIDATION_EVERY = 4  # turns
STARTUP_SHARE = 0.5  # of the budget that launches may take

Start = Callable[[str], AbstractContextManager[Train]]  # starts the process of a variant


class Measurement(NamedTuple):
    """All blocks, why there are no more, and whether processes of all variants lived side by side."""

    blocks: list[PlacedBlock]
    ended_because: EndReason
    side_by_side: bool
    spent_seconds: float


def balanced_orders(num_variants: int) -> list[list[int]]:
    """Return orders in which each variant stands in each place, and after each other one, equally often.

    E. J. Williams, Australian Journal of Scientific Research A 2, 1949: one Latin square, two for an odd number.
    """
    first = [(place + 1) // 2 if place % 2 else -(place // 2) % num_variants for place in range(num_variants)]
    square = [[(variant + shift) % num_variants for variant in first] for shift in range(num_variants)]
    return square if num_variants % 2 == 0 else [*square, *(order[::-1] for order in square)]


class _Measuring:
    """The blocks so far, the number of steps of a block by variant, and the variants that have failed."""

    def __init__(self, start: Start, max_steps: Mapping[str, int], unit: int, budget_seconds: float) -> None:
        self.start, self.max_steps, self.unit = start, max_steps, unit
        self.started, self.budget_seconds = time.monotonic(), budget_seconds
        self.baseline = next(iter(max_steps))
        self.blocks: list[PlacedBlock] = []
        self.num_steps: dict[str, int] = {}
        self.block_seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.peak_memory_bytes = 0
        self.num_launches = 0  # unknown until the first launch has shown what one costs
        self.launch_seconds = 0.0  # the least that another launch costs

    @property
    def variants(self) -> list[str]:
        return [variant for variant in self.max_steps if variant not in self.failed]

    def spent_seconds(self) -> float:
        return time.monotonic() - self.started

    def launch_side_by_side(self, launch: int) -> None:
        """Start a process of each variant, and have them train in turns for this launch's share of the budget."""
        before = self.spent_seconds()
        with ExitStack() as processes, ThreadPoolExecutor(os.cpu_count()) as pool:
            trains = {variant: processes.enter_context(self.start(variant)) for variant in self.variants}
            list(pool.map(lambda variant: self._prepare(variant, trains[variant], launch), trains))
            for variant in self.variants:
                self._size(variant, trains[variant], launch)
            self.launch_seconds = self.spent_seconds() - before
            if self.baseline in self.failed:
                return
            if not self.num_launches:
                affordable = int(STARTUP_SHARE * self.budget_seconds / self.launch_seconds)
                self.num_launches = min(max(affordable, MIN_LAUNCHES), MAX_LAUNCHES)
            end = self.budget_seconds * launch / self.num_launches
            turn, turn_seconds = 0, 0.0
            while turn < self._min_turns() or (turn < MAX_TURNS and self.spent_seconds() + turn_seconds <= end):
                turn += 1
                before = self.spent_seconds()
                for place, variant in enumerate(self._order(turn), start=1):
                    self._train(variant, trains[variant], launch, turn, place)
                turn_seconds = self.spent_seconds() - before
                if self.baseline in self.failed:
                    return
            self.launch_seconds += self._min_turns() * turn_seconds

    def launch_in_a_row(self, launch: int) -> None:
        """Start one process after the other; each trains all its blocks and ends."""
        self.num_launches, before = MAX_ROWS, self.spent_seconds()
        for place, variant in enumerate(self._order(launch), start=1):
            with self.start(variant) as train:
                self._prepare(variant, train, launch)
                self._size(variant, train, launch)
                if self.baseline in self.failed:
                    return
                for turn in range(1, self._turns_in_a_row() + 1):
                    self._train(variant, train, launch, turn, place)
        self.launch_seconds = self.spent_seconds() - before

    def _order(self, turn: int) -> list[str]:
        orders = balanced_orders(len(self.variants))
        return [self.variants[index] for index in orders[(turn - 1) % len(orders)]]

    def _min_turns(self) -> int:
        return MIN_TURNS if self.block_seconds[self.baseline] <= LONG_SECONDS else MIN_LONG_TURNS

    def _turns_in_a_row(self) -> int:
        affordable = int(ROW_SECONDS / self.block_seconds[self.baseline])
        return max(min(affordable, MAX_TURNS_IN_A_ROW), self._min_turns())

    def _stride(self, variant: str) -> int:
        """Return that `variant` has a block in every so many turns: more than one where its shortest block is long.

        The baseline is in every turn, because it is what others are compared with. Powers of two, so that the turns of
        a slow variant are turns of every faster one.
        """
        if variant in (self.baseline, REPEAT):
            return 1
        longer = self.block_seconds[variant] / max(self.block_seconds[self.baseline], BLOCK_SECONDS)
        return 1 << max(0, round(math.log2(longer / 2)))

    def _prepare(self, variant: str, train: Train, launch: int) -> None:
        """Warm a process up."""
        block = train(Task(min(NUM_SIZING_UNITS * self.unit, self.max_steps[variant])))
        self.peak_memory_bytes = max(self.peak_memory_bytes, block.peak_memory_bytes or 0)
        self._keep(block, variant, launch, turn=0, place=0)

    def _size(self, variant: str, train: Train, launch: int) -> None:
        """Find out how many steps make a block, in the first launch and beside no other process that trains."""
        if variant in self.num_steps or variant in self.failed:
            return
        num_steps = min(NUM_SIZING_UNITS * self.unit, self.max_steps[variant])
        seconds: list[float] = []
        while len(seconds) < NUM_SIZINGS and sum(seconds) < MAX_SIZING_SECONDS:
            block = train(Task(num_steps))
            if not block.wall_seconds:
                self._keep(block, variant, launch, turn=0, place=0)
                return
            seconds.append(block.wall_seconds)
        step_seconds = min(seconds) / num_steps
        num_units = max(1, round(BLOCK_SECONDS / step_seconds / self.unit))
        self.num_steps[variant] = min(num_units * self.unit, self.max_steps[variant])
        self.block_seconds[variant] = self.num_steps[variant] * step_seconds

    def _train(self, variant: str, train: Train, launch: int, turn: int, place: int) -> None:
        if variant not in self.failed and (turn - 1) % self._stride(variant) == 0:
            task = Task(self.num_steps[variant], with_validation=(turn - 1) % VALIDATION_EVERY == 0)
            self._keep(train(task), variant, launch, turn, place)

    def _keep(self, block: Block, variant: str, launch: int, turn: int, place: int) -> None:
        self.blocks.append(PlacedBlock(**block.model_dump(), launch=launch, turn=turn, place=place, variant=variant))
        if block.wall_seconds is None:
            self.failed.add(variant)


def take_turns(
    start: Start,
    max_steps: Mapping[str, int],
    unit: int,
    budget_seconds: float,
    side_by_side: bool,
    is_settled: Callable[[Sequence[PlacedBlock]], bool],
    say: Callable[[str], None],
) -> Measurement:
    """Train the variants in turns until `is_settled`, or until the budget is spent; two launches are made anyway.

    Side by side, a launch has a process of each variant, which train a block each in every turn. In a row, one process
    after the other trains all its blocks of the launch. A variant that fails takes no further part; where it is the
    baseline, nothing more can be compared.

    Args:
        start: starts the process of a variant.
        max_steps: most steps of a block, by variant. The first is the baseline.
        unit: blocks are multiples of so many steps.
        side_by_side: whether processes of all variants may live at once; they do as long as memory allows it.
        is_settled: asked after each launch from the second on.
    """
    state = _Measuring(start, max_steps, unit, budget_seconds)
    launch, reason = 0, cast(EndReason | None, None)
    while reason is None:
        launch += 1
        if side_by_side and 1.5 * state.peak_memory_bytes * len(state.variants) > psutil.virtual_memory().available:
            say("not enough memory for a process of each variant at once: one after the other")
            side_by_side = False
        (state.launch_side_by_side if side_by_side else state.launch_in_a_row)(launch)
        say(f"launch {launch}, {len(state.blocks)} blocks, {state.spent_seconds():.0f} s")
        is_spent = launch >= state.num_launches or state.spent_seconds() + state.launch_seconds > budget_seconds
        if state.baseline in state.failed:
            reason = "the baseline does not train"
        elif launch >= MIN_LAUNCHES and is_settled(state.blocks):
            reason = "the intervals are as narrow as asked for"
        elif launch >= MIN_LAUNCHES and is_spent:
            reason = "the budget is spent"
    return Measurement(state.blocks, reason, side_by_side, state.spent_seconds())
