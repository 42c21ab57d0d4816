"""Measure the speed of variants that train short blocks in turns, in a balanced order, over several launches.

A launch starts a new process for each variant. In a turn, each of these processes trains one block.
"""

import datetime
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psutil
from pydantic import BaseModel, Field, PrivateAttr

from pipeline.errors import InputError
from pipeline.files.writing import write_whole
from pipeline.machine.hardware import free_gpu_bytes
from pipeline.records.blocks import MAX_LAUNCHES, MAX_TURNS, Block, Launch, PlacedBlock
from pipeline.statistics.contrasts import MIN_LAUNCHES

# docs/decisions/speed-in-turns.md explains the sizes of blocks and launches.
BLOCK_SECONDS = 0.2
NUM_SIZING_UNITS, NUM_SIZINGS, MAX_SIZING_SECONDS = 2, 2, 10.0
MIN_TURNS = 4
MIN_LONG_TURNS, LONG_SECONDS = 2, 1.0  # fewer turns, if a block of the baseline takes more than LONG_SECONDS
MAX_TURNS_IN_A_ROW, ROW_SECONDS = 20, 10.0
VALIDATION_EVERY = 4  # turns
MEMORY_MARGIN = 1.5  # a process may need this many times the peak of its first steps
GPU_PROCESS_BYTES = 2**29  # what a process takes on a GPU outside its allocator

# A function that starts one process for each named variant, and ends the processes when the `with` block ends.
Start = Callable[[Sequence[str]], AbstractContextManager[Mapping[str, "Train"]]]


class Task(NamedTuple):
    """Tell a process to train `num_steps` steps and, if `with_validation` is true, to validate afterwards."""

    num_steps: int
    with_validation: bool = False


class Train(Protocol):
    """Have a process do a task, and return the block that it trained.

    `where` holds the fields `environment` and `images_on_device` of `Launch`, or None before the first answer.
    """

    where: Mapping[str, Any] | None

    def __call__(self, task: Task) -> Block: ...


class Measurement(NamedTuple):
    """Hold all blocks and launches, and the reason why the measurement ended."""

    blocks: list[PlacedBlock]
    launches: list[Launch]
    ended_because: str
    spent_seconds: float


def balanced_orders(num_variants: int) -> list[list[int]]:
    """Return orders in which each variant takes each place, and follows each other variant, equally often.

    Variants are numbered from 0. The orders are the rows of one Latin square or, for an odd number of variants, of two
    (E. J. Williams, Australian Journal of Scientific Research A 2, 1949).
    """
    first = [(place + 1) // 2 if place % 2 else -(place // 2) % num_variants for place in range(num_variants)]
    square = [[(variant + shift) % num_variants for variant in first] for shift in range(num_variants)]
    return square if num_variants % 2 == 0 else [*square, *(order[::-1] for order in square)]


class _Measuring(BaseModel):
    """Hold the state of a measurement, and make its launches.

    After each launch, the fields without `exclude=True` are written to a file, from which an interrupted measurement
    resumes.
    """

    start: Start = Field(exclude=True)
    all_variants: Sequence[str] = Field(exclude=True)
    unit: int = Field(exclude=True)
    budget_seconds: float = Field(exclude=True)
    keeps_compiled: bool = Field(exclude=True)
    where: Mapping[str, Any] | None = Field(default=None, exclude=True)
    num_steps: dict[str, int] = {}  # of a block of each variant; found in the first launch, like `block_seconds`
    block_seconds: dict[str, float] = {}
    blocks: list[PlacedBlock] = []
    failed: set[str] = set()
    process_bytes: int = 0  # the largest peak of any process
    is_on_accelerator: bool = False
    launch_seconds: float = 0.0  # of the last launch
    side_by_side: bool
    launches: list[Launch] = []
    _started: float = PrivateAttr(default_factory=lambda: time.monotonic())

    def model_post_init(self, _: object) -> None:
        self._started -= sum(launch.seconds or 0.0 for launch in self.launches)

    @property
    def baseline(self) -> str:
        return self.all_variants[0]

    @property
    def variants(self) -> list[str]:
        return [variant for variant in self.all_variants if variant not in self.failed]

    def spent_seconds(self) -> float:
        return time.monotonic() - self._started

    def launch_side_by_side(self, launch: int) -> bool:
        """Start a process for each variant, and let all train in turns for about as long as they took to start.

        Return False, and discard the launch's blocks, if memory does not suffice for all processes at once. This is
        also the case if a variant runs out of memory next to the others but not alone. Otherwise, return True.
        """
        num_blocks, failed, before = len(self.blocks), set(self.failed), self.spent_seconds()
        with self.start(self.variants) as trains:
            fit = self._warm_up_all(trains, launch)
            if fit and self.baseline not in self.failed:
                self.launch_seconds = self.spent_seconds() - before
                for variant in self.variants:
                    self._size(variant, trains[variant], launch)
                self._take_turns(trains, launch)
                self.launch_seconds = self.spent_seconds() - before
        for block in self.blocks[num_blocks:]:
            if block.outcome == "out_of_memory" and self._fits_alone(block.variant):
                fit = False
        if not fit:
            del self.blocks[num_blocks:]
            self.failed = failed
        return fit

    def _warm_up_all(self, trains: Mapping[str, Train], launch: int) -> bool:
        """Warm up all processes, as many at a time as don't disturb one another.

        Return False, and stop early, if memory does not suffice for all processes at once. Otherwise, return True. If
        the baseline fails, the other processes are not warmed up.
        """

        def warm_up(variants: Sequence[str], beside_each_other: bool) -> None:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                each = pool.map if beside_each_other else map
                list(each(lambda variant: self._warm_up(variant, trains[variant], launch), variants))

        waiting = self.variants
        if launch == 1:  # the memory of the first processes shows if all fit
            num_first = 1 if free_gpu_bytes() else 2  # on a CPU, two processes use different cores
            warm_up(waiting[:num_first], beside_each_other=num_first > 1)
            waiting = waiting[num_first:]
        if self.baseline in self.failed:
            return True
        num_warm = len(trains) - len(waiting)
        if self.process_bytes * (MEMORY_MARGIN * len(self.variants) - num_warm) > self._free_bytes():
            return False
        # Engines choose an accelerator's kernels by timing them, unless they kept an earlier choice.
        is_choosing = self.is_on_accelerator and (launch == 1 or not self.keeps_compiled)
        warm_up(waiting, beside_each_other=not is_choosing)
        return True

    def _take_turns(self, trains: Mapping[str, Train], launch: int) -> None:
        """Let the variants train in turns for about as long as they took to start. Stop if the baseline fails.

        The launch numbered n also stops when n / `MIN_LAUNCHES` of the budget is spent, so that the launches share the
        budget. Unless the baseline fails, there are at least `_min_turns()` and at most `MAX_TURNS` turns.
        """
        end = min(self.spent_seconds() + self.launch_seconds, self.budget_seconds * launch / MIN_LAUNCHES)
        turn, turn_seconds = 0, 0.0
        while self.baseline not in self.failed and (
            turn < self._min_turns() or (turn < MAX_TURNS and self.spent_seconds() + turn_seconds <= end)
        ):
            turn += 1
            before = self.spent_seconds()
            for place, variant in enumerate(self._order(turn), start=1):
                self._train(variant, trains[variant], launch, turn, place)
            turn_seconds = self.spent_seconds() - before

    def _free_bytes(self) -> int:
        """Return the free bytes of the GPU or, on a CPU, of the machine; 0 on a TPU, which takes only one process."""
        return (free_gpu_bytes() or 0) if self.is_on_accelerator else psutil.virtual_memory().available

    def _fits_alone(self, variant: str) -> bool:
        with self.start([variant]) as trains:
            return trains[variant](self._first_task()).outcome != "out_of_memory"

    def launch_in_a_row(self, launch: int) -> None:
        """Run the variants' processes one after another. Each trains all its blocks before the next one starts."""
        before = self.spent_seconds()
        for place, variant in enumerate(self._row(launch), start=1):
            with self.start([variant]) as trains:
                train = trains[variant]
                self._warm_up(variant, train, launch)
                self._size(variant, train, launch)
                if self.baseline in self.failed:
                    return
                if variant in self.failed:
                    continue
                for turn in range(1, self._turns_in_a_row(variant) + 1):
                    self._train(variant, train, launch, turn, place)
        self.launch_seconds = self.spent_seconds() - before

    def _order(self, turn: int) -> list[str]:
        orders = balanced_orders(len(self.variants))
        return [self.variants[index] for index in orders[(turn - 1) % len(orders)]]

    def _row(self, launch: int) -> list[str]:
        """Return the order of processes that run one after another.

        Every second launch reverses the order of the launch before, so that a machine that slows down over time slows
        all variants alike.
        """
        order = self._order((launch + 1) // 2)
        return order if launch % 2 else order[::-1]

    def _warm_up(self, variant: str, train: Train, launch: int) -> None:
        """Have a process train its first steps, and note the memory that the process takes."""
        block = train(self._first_task())
        if variant == self.baseline:
            self.where = train.where
        self.is_on_accelerator = block.peak_memory_kind == "allocator"
        besides = GPU_PROCESS_BYTES if self.is_on_accelerator else 0
        self.process_bytes = max(self.process_bytes, (block.peak_memory_bytes or 0) + besides)
        self._keep(block, variant, launch, turn=0, place=0)

    def _first_task(self) -> Task:
        return Task(NUM_SIZING_UNITS * self.unit)

    def _size(self, variant: str, train: Train, launch: int) -> None:
        """Find how many steps of a variant make a block. Do so once, while no other process trains."""
        if variant in self.num_steps or variant in self.failed:
            return
        num_units, step_seconds, spent_seconds = NUM_SIZING_UNITS, math.inf, 0.0
        for _ in range(NUM_SIZINGS):
            block = train(Task(num_units * self.unit))
            if not block.wall_seconds:
                self._keep(block, variant, launch, turn=0, place=0)
                return
            step_seconds = min(step_seconds, block.wall_seconds / block.num_steps)
            num_units = math.ceil(BLOCK_SECONDS / step_seconds / self.unit)
            spent_seconds += block.wall_seconds
            if spent_seconds > MAX_SIZING_SECONDS:
                break
        self.num_steps[variant] = num_units * self.unit
        self.block_seconds[variant] = self.num_steps[variant] * step_seconds

    def _min_turns(self) -> int:
        return MIN_TURNS if self.block_seconds[self.baseline] <= LONG_SECONDS else MIN_LONG_TURNS

    def _turns_in_a_row(self, variant: str) -> int:
        affordable = int(ROW_SECONDS / self.block_seconds[variant])
        return max(min(affordable, MAX_TURNS_IN_A_ROW), self._min_turns())

    def _train(self, variant: str, train: Train, launch: int, turn: int, place: int) -> None:
        """Train a block of `variant`, unless the variant has failed."""
        if variant not in self.failed:
            task = Task(self.num_steps[variant], with_validation=(turn - 1) % VALIDATION_EVERY == 0)
            self._keep(train(task), variant, launch, turn, place)

    def _keep(self, block: Block, variant: str, launch: int, turn: int, place: int) -> None:
        self.blocks.append(PlacedBlock(**block.model_dump(), launch=launch, turn=turn, place=place, variant=variant))
        if block.wall_seconds is None:
            self.failed.add(variant)


def take_turns(
    start: Start,
    variants: Sequence[str],
    unit: int,
    budget_seconds: float,
    side_by_side: bool,
    is_settled: Callable[[Sequence[PlacedBlock]], bool],
    say: Callable[[str], None],
    unfinished: Path,
    keeps_compiled: bool = False,
) -> Measurement:
    """Train the variants in turns until `is_settled` or the budget is spent, for at least `MIN_LAUNCHES` launches.

    Side by side, the processes of all variants live at once, and each trains a block in every turn. Otherwise, the
    processes of a launch run one after another, and each trains all its blocks before the next one starts. Every second
    such launch reverses the order of the launch before. So these launches come in pairs, and at least four are made.

    A variant that fails takes no further part. If the baseline fails, nothing more can be compared, and the measurement
    ends. The measurement also ends after `MAX_LAUNCHES` launches.

    Args:
        start: starts one process for each named variant.
        variants: the first is the baseline.
        unit: the number of steps in a block is a multiple of this.
        side_by_side: whether processes of all variants may live at once, as long as memory allows.
        is_settled: tells, from the blocks so far, whether the measurement may end. Called after each launch from
            `MIN_LAUNCHES` on; if processes run one after another, only after every second launch.
        say: called with a line about each launch.
        unfinished: a file that is written after each launch, from which an interrupted measurement resumes.
        keeps_compiled: whether processes reuse code that earlier launches compiled.

    Raises:
        InputError: the system ended the baseline's process before that process trained. Errors from the functions that
            `start` provides are passed on.
    """
    saved: Any = json.loads(unfinished.read_bytes()) if unfinished.exists() else {"side_by_side": side_by_side}
    state = _Measuring(
        start=start,
        all_variants=variants,
        unit=unit,
        budget_seconds=budget_seconds,
        keeps_compiled=keeps_compiled,
        **saved,
    )
    reason = ""
    while not reason:
        launch = len(state.launches) + 1
        before, started_at = state.spent_seconds(), datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        if state.side_by_side and not state.launch_side_by_side(launch):
            say("not enough memory for a process of each variant at once: one after the other")
            state.side_by_side = False
        if not state.side_by_side:
            state.launch_in_a_row(launch)
        if state.where is None:
            raise InputError(f"the system ended the process of {state.baseline} before it trained.")
        seconds = state.spent_seconds() - before
        state.launches.append(Launch(started_at=started_at, seconds=seconds, **state.where))
        write_whole(unfinished, state.model_dump_json())
        started = f"started {'once' if launch == 1 else f'{launch} times'}"
        say(
            f"every variant {started}, {len(state.blocks)} timings of a few steps, {state.spent_seconds():.0f} s so far"
        )
        num_next = 1 if state.side_by_side else 2
        next_seconds = num_next * state.launch_seconds
        is_spent = launch >= MAX_LAUNCHES or state.spent_seconds() + next_seconds > budget_seconds
        may_end = launch >= MIN_LAUNCHES and launch % num_next == 0
        if state.baseline in state.failed:
            reason = "the baseline does not train"
        elif may_end and is_settled(state.blocks):
            reason = "the intervals are as narrow as asked for"
        elif may_end and is_spent:
            reason = "the budget is spent"
    return Measurement(state.blocks, state.launches, reason, state.spent_seconds())
