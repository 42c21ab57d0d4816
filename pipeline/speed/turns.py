"""Measure the speed of variants in turns: short blocks of each, in a balanced order, over several launches."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple, cast

import psutil

from pipeline.records.blocks import MAX_ROWS, MAX_TURNS, Block, EndReason, PlacedBlock
from pipeline.speed.sizing import Sizing
from pipeline.speed.worker import Train

MIN_LAUNCHES, MAX_LAUNCHES = 2, 8
STARTUP_SHARE = 0.5  # of the budget that launches may take
MEMORY_MARGIN = 1.5  # times the peak of a process that has trained a few steps

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
    """The blocks so far, their sizes, and the variants that have failed."""

    def __init__(self, start: Start, sizing: Sizing, budget_seconds: float) -> None:
        self.start, self.sizing, self.baseline = start, sizing, sizing.baseline
        self.started, self.budget_seconds = time.monotonic(), budget_seconds
        self.blocks: list[PlacedBlock] = []
        self.failed: set[str] = set()
        self.peak_memory_bytes = 0
        self.num_launches = 0  # unknown until the first launch has shown what one costs
        self.launch_seconds = 0.0  # the least that another launch costs

    @property
    def variants(self) -> list[str]:
        return [variant for variant in self.sizing.max_steps if variant not in self.failed]

    def spent_seconds(self) -> float:
        return time.monotonic() - self.started

    def launch_side_by_side(self, launch: int) -> bool:
        """Start a process of each variant, and have them train in turns for this launch's share of the budget.

        Return False, with nothing kept of the launch, where there is not enough memory for all of them at once. One
        that runs out of memory beside the others is tried once more, alone, before that is taken for its own.
        """
        num_blocks, failed = len(self.blocks), set(self.failed)
        fit = self._turns_side_by_side(launch)
        for block in self.blocks[num_blocks:]:
            if block.outcome == "out_of_memory" and self._fits_alone(block.variant):
                fit = False
        if not fit:
            del self.blocks[num_blocks:]
            self.failed = failed
        return fit

    def _turns_side_by_side(self, launch: int) -> bool:
        before = self.spent_seconds()
        with ExitStack() as processes, ThreadPoolExecutor(os.cpu_count()) as pool:
            trains: dict[str, Train] = {}
            others = self.variants
            if launch == 1:  # what one takes says whether all fit
                first, *others = others
                trains[first] = processes.enter_context(self.start(first))
                self._prepare(first, trains[first], launch)
            if self.baseline in self.failed:
                return True
            more_bytes = self.peak_memory_bytes * (MEMORY_MARGIN * len(self.variants) - len(trains))
            if more_bytes > psutil.virtual_memory().available:
                return False
            trains |= {variant: processes.enter_context(self.start(variant)) for variant in others}
            list(pool.map(lambda variant: self._prepare(variant, trains[variant], launch), others))
            for variant in self.variants:
                self._size(variant, trains[variant], launch)
            self.launch_seconds = self.spent_seconds() - before
            if self.baseline in self.failed:
                return True
            if not self.num_launches:
                affordable = int(STARTUP_SHARE * self.budget_seconds / self.launch_seconds)
                self.num_launches = min(max(affordable, MIN_LAUNCHES), MAX_LAUNCHES)
            end = self.budget_seconds * launch / self.num_launches
            turn, turn_seconds = 0, 0.0
            while turn < self.sizing.min_turns() or (turn < MAX_TURNS and self.spent_seconds() + turn_seconds <= end):
                turn += 1
                before = self.spent_seconds()
                for place, variant in enumerate(self._order(turn), start=1):
                    self._train(variant, trains[variant], launch, turn, place)
                turn_seconds = self.spent_seconds() - before
                if self.baseline in self.failed:
                    return True
            self.launch_seconds += self.sizing.min_turns() * turn_seconds
        return True

    def _fits_alone(self, variant: str) -> bool:
        with self.start(variant) as train:
            return train(self.sizing.first_task(variant)).outcome != "out_of_memory"

    def launch_in_a_row(self, launch: int) -> None:
        """Start one process after the other; each trains all its blocks and ends."""
        self.num_launches, before = MAX_ROWS, self.spent_seconds()
        for place, variant in enumerate(self._row(launch), start=1):
            with self.start(variant) as train:
                self._prepare(variant, train, launch)
                self._size(variant, train, launch)
                if self.baseline in self.failed:
                    return
                for turn in range(1, self.sizing.turns_in_a_row() + 1):
                    self._train(variant, train, launch, turn, place)
        self.launch_seconds = self.spent_seconds() - before

    def _order(self, turn: int) -> list[str]:
        orders = balanced_orders(len(self.variants))
        return [self.variants[index] for index in orders[(turn - 1) % len(orders)]]

    def _row(self, launch: int) -> list[str]:
        """Return the order of a launch in a row: what changes evenly over two launches slows every variant alike."""
        order = self._order((launch + 1) // 2)
        return order if launch % 2 else order[::-1]

    def _prepare(self, variant: str, train: Train, launch: int) -> None:
        """Warm a process up."""
        block = train(self.sizing.first_task(variant))
        self.peak_memory_bytes = max(self.peak_memory_bytes, block.peak_memory_bytes or 0)
        self._keep(block, variant, launch, turn=0, place=0)

    def _size(self, variant: str, train: Train, launch: int) -> None:
        """Find out how many steps make a block, in the first launch and beside no other process that trains."""
        if variant not in self.sizing.num_steps and variant not in self.failed:
            failure = self.sizing.size(variant, train)
            if failure:
                self._keep(failure, variant, launch, turn=0, place=0)

    def _train(self, variant: str, train: Train, launch: int, turn: int, place: int) -> None:
        if variant not in self.failed and (task := self.sizing.task(variant, turn)):
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
    after the other trains all its blocks of the launch, and every second launch has the order of the one before it
    turned around, so that it ends with a second one. A variant that fails takes no further part; where it is the
    baseline, nothing more can be compared.

    Args:
        start: starts the process of a variant.
        max_steps: most steps of a block, by variant. The first is the baseline.
        unit: blocks are multiples of so many steps.
        side_by_side: whether processes of all variants may live at once; they do as long as memory allows it.
        is_settled: asked after each launch from the second on, in a row after each second one.
    """
    state = _Measuring(start, Sizing(max_steps, unit), budget_seconds)
    launch, reason = 0, cast(EndReason | None, None)
    while reason is None:
        launch += 1
        if side_by_side and not state.launch_side_by_side(launch):
            say("not enough memory for a process of each variant at once: one after the other")
            side_by_side = False
        if not side_by_side:
            state.launch_in_a_row(launch)
        say(f"launch {launch}, {len(state.blocks)} blocks, {state.spent_seconds():.0f} s")
        num_next = 1 if side_by_side else 2
        next_seconds = num_next * state.launch_seconds
        is_spent = launch >= state.num_launches or state.spent_seconds() + next_seconds > budget_seconds
        may_end = launch >= MIN_LAUNCHES and launch % num_next == 0
        if state.baseline in state.failed:
            reason = "the baseline does not train"
        elif may_end and is_settled(state.blocks):
            reason = "the intervals are as narrow as asked for"
        elif may_end and is_spent:
            reason = "the budget is spent"
    return Measurement(state.blocks, reason, side_by_side, state.spent_seconds())
