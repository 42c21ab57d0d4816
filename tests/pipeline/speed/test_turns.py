"""Turns: their order, the sizes of blocks and launches, and how slow and failed variants are treated."""

import contextlib
import functools
import itertools
import threading
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, small_study

from pipeline.records.blocks import REPEAT, Block
from pipeline.speed import measuring, turns
from pipeline.speed.turns import BLOCK_SECONDS, MIN_TURNS, balanced_orders
from pipeline.statistics.circumstances import side_by_side
from pipeline.statistics.contrasts import MIN_LAUNCHES
from pipeline.statistics.speeds import Speeds

VARIANTS = ["float32", REPEAT, "float32_2x", "mixed"]
UNFINISHED = Path("so_far.json")
take_turns = functools.partial(turns.take_turns, unfinished=UNFINISHED)


pytestmark = pytest.mark.usefixtures("inside")


@pytest.mark.parametrize("num_variants", [1, 2, 3, 4, 5, 8, 9])
def test_each_variant_takes_each_place_and_follows_each_other_equally_often(num_variants):
    orders = balanced_orders(num_variants)
    assert all(sorted(order) == list(range(num_variants)) for order in orders)
    for place in range(num_variants):
        standing = [order[place] for order in orders]
        assert {standing.count(variant) for variant in range(num_variants)} == {len(orders) // num_variants}
    followed = [pair for order in orders for pair in itertools.pairwise(order)]
    assert len({followed.count(pair) for pair in itertools.permutations(range(num_variants), 2)}) <= 1


class Trainers:
    """Trainers of known speed, in steps a second, on a clock that only they move; and what was asked of them."""

    def __init__(
        self, monkeypatch, outcomes=(), speeds=(), startup_seconds=1.0, memory=100, call_seconds=0.0, peak_kind=None
    ):
        """In `memory` so many of them find room at once; one more ends the last that was started."""
        self.outcomes, self.speeds, self.startup_seconds = dict(outcomes), dict(speeds), startup_seconds
        self.memory, self.call_seconds, self.peak_kind = memory, call_seconds, peak_kind
        self.threads: set[int] = set()
        self.now = 0.0
        self.started: list[str] = []
        self.trained: list[tuple[str, int]] = []
        monkeypatch.setattr(turns.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(turns.os, "cpu_count", lambda: 1)

    @contextlib.contextmanager
    def start(self, variants):
        self.started += variants
        self.now += self.startup_seconds * len(variants)
        trains = {variant: functools.partial(self.train, variant, len(variants)) for variant in variants}
        for train in trains.values():
            train.where = {"environment": ENVIRONMENT, "images_on_device": True}
        yield trains

    def train(self, variant, alive, task):
        num_steps = task.num_steps
        if variant in self.outcomes:
            return Block(outcome=self.outcomes[variant])
        if alive > self.memory and variant == VARIANTS[-1]:
            return Block(outcome="out_of_memory")
        self.trained.append((variant, num_steps))
        self.threads.add(threading.get_ident())
        seconds = self.call_seconds + num_steps / self.speeds.get(variant, 20)
        self.now += seconds
        return Block(
            outcome="completed",
            num_steps=num_steps,
            num_images=num_steps,
            wall_seconds=seconds,
            num_validation_images=10 * task.with_validation,
            validation_seconds=0.01 if task.with_validation else None,
            peak_memory_bytes=1,
            peak_memory_kind=self.peak_kind,
        )

    def measure(self, *, budget_seconds=0.0, side_by_side=True, unit=1, is_settled=lambda _: False):
        UNFINISHED.unlink(missing_ok=True)
        return take_turns(self.start, VARIANTS, unit, budget_seconds, side_by_side, is_settled, say=lambda _: None)


def test_every_launch_starts_all_variants_and_interleaves_their_turns(monkeypatch):
    trainers = Trainers(monkeypatch)
    found = trainers.measure()
    assert trainers.started == VARIANTS * MIN_LAUNCHES
    in_turns = [block for block in found.blocks if block.turn]
    assert len(in_turns) == len(VARIANTS) * MIN_TURNS * MIN_LAUNCHES
    first = [block.variant for block in in_turns if (block.launch, block.turn) == (1, 1)]
    second = [block.variant for block in in_turns if (block.launch, block.turn) == (1, 2)]
    assert sorted(first) == sorted(second) == sorted(VARIANTS)
    assert first != second
    assert [block.place for block in in_turns][:4] == [1, 2, 3, 4]


def test_blocks_last_equally_long_for_every_variant_in_whole_units_of_steps(monkeypatch):
    def steps_of(**how):
        trainers = Trainers(monkeypatch, speeds={"mixed": 40, "float32_2x": 1})
        blocks = trainers.measure(**how).blocks
        return {block.variant: block.num_steps for block in blocks if block.turn}

    assert BLOCK_SECONDS == 0.2
    assert steps_of() == {"float32": 4, REPEAT: 4, "mixed": 8, "float32_2x": 1}
    assert steps_of(unit=5) == {"float32": 5, REPEAT: 5, "mixed": 10, "float32_2x": 5}


def test_short_steps_fill_a_block_despite_the_overhead_of_a_call(monkeypatch):
    trainers = Trainers(monkeypatch, speeds=dict.fromkeys(VARIANTS, 10_000), call_seconds=0.002)
    assert min(block.wall_seconds for block in trainers.measure().blocks if block.turn) >= 0.9 * BLOCK_SECONDS


def test_turns_take_as_long_as_starting_and_the_budget_ends_them_from_the_third_launch_on(monkeypatch):
    """A launch takes 4.4 s to start, and a turn 0.8 s."""
    found = Trainers(monkeypatch).measure(budget_seconds=50)
    assert {block.launch for block in found.blocks} == {1, 2, 3, 4, 5}
    assert max(block.turn for block in found.blocks) == 5
    for budget_seconds, is_side_by_side, num_launches in ((1, True, 3), (30, True, 3), (1, False, 4)):
        found = Trainers(monkeypatch).measure(budget_seconds=budget_seconds, side_by_side=is_side_by_side)
        assert (len(found.launches), found.ended_because) == (num_launches, "the budget is spent")
    found = Trainers(monkeypatch, startup_seconds=5.0).measure(budget_seconds=100)
    assert len(found.launches) == 3
    assert max(launch.seconds for launch in found.launches) <= 100 / 3
    assert found.spent_seconds > 90


def test_a_finished_launch_is_not_repeated_after_an_interruption(monkeypatch):
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    whole = Trainers(monkeypatch).measure(budget_seconds=60)
    UNFINISHED.unlink()
    trainers = Trainers(monkeypatch)
    how = (trainers.start, VARIANTS, 1, 60, True, lambda _: False)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            take_turns(*how, say=interrupted)
    found = take_turns(*how, say=lambda _: None)
    assert (found.blocks, len(found.launches)) == (whole.blocks, len(whole.launches))
    assert trainers.started == VARIANTS * len(whole.launches)


def test_measuring_ends_once_the_intervals_are_narrow_enough(monkeypatch):
    found = Trainers(monkeypatch).measure(budget_seconds=1000, is_settled=lambda _: True)
    assert {block.launch for block in found.blocks} == {1, 2, 3}
    assert found.ended_because == "the intervals are as narrow as asked for"


def test_processes_that_run_one_at_a_time_train_all_their_blocks_in_a_row(monkeypatch):
    """The blocks show which of the two ways was taken."""
    found = Trainers(monkeypatch).measure(side_by_side=False)
    runs = [variant for variant, _ in itertools.groupby(block.variant for block in found.blocks)]
    assert len(runs) == 4 * len(VARIANTS) - 2  # one ends a launch and begins the next, twice
    in_turns = Trainers(monkeypatch).measure().blocks
    read = [side_by_side(blocks) for blocks in (in_turns, found.blocks, ())]
    assert read == [True, False, False]


def test_every_second_launch_reverses_the_order_if_processes_run_one_at_a_time(monkeypatch):
    """So a machine that slows down steadily affects every variant alike, and launches come in pairs."""
    found = Trainers(monkeypatch).measure(side_by_side=False, budget_seconds=500)
    num_launches = len({block.launch for block in found.blocks})
    assert num_launches >= 4
    assert num_launches % 2 == 0
    places = {(block.launch, block.variant): block.place for block in found.blocks if block.turn}
    for launch in range(1, num_launches, 2):
        assert {places[launch, name] + places[launch + 1, name] for name in VARIANTS} == {1 + len(VARIANTS)}
    assert len({places[launch, "float32"] for launch in range(1, num_launches + 1)}) == len(VARIANTS)


def test_processes_that_do_not_fit_side_by_side_run_one_after_the_other(monkeypatch):
    trainers = Trainers(monkeypatch)
    monkeypatch.setattr(turns.psutil, "virtual_memory", lambda: type("Memory", (), {"available": 3}))
    found = trainers.measure()
    assert not side_by_side(found.blocks)  # 1.5 × four processes of a byte, two of which there are
    assert len(trainers.started) == len(VARIANTS) * (1 + 4)
    *first, then = [variant for variant, _ in trainers.trained[:3]]
    assert (set(first), then) == ({"float32", REPEAT}, "float32")  # beside each other, then alone in a row
    assert [block.turn for block in found.blocks if (block.launch, block.variant) == (1, "float32")].count(0) == 1


@pytest.mark.parametrize(("free_bytes", "fit"), [(2**31, False), (2**32, True), (None, False)])
def test_free_accelerator_memory_decides_whether_processes_run_side_by_side(monkeypatch, free_bytes, fit):
    """If no driver reports it, as on a TPU, one process runs at a time."""
    monkeypatch.setattr(turns, "free_gpu_bytes", lambda: free_bytes)
    found = Trainers(monkeypatch, peak_kind="allocator").measure()
    assert side_by_side(found.blocks) == fit


def test_no_process_computes_while_another_chooses_its_kernels(monkeypatch):
    monkeypatch.setattr(turns, "free_gpu_bytes", lambda: 2**40)
    trainers = Trainers(monkeypatch, peak_kind="allocator")
    trainers.measure()
    assert trainers.threads == {threading.get_ident()}  # also in later launches: nothing compiled is kept


def test_a_variant_that_runs_out_of_memory_beside_others_is_tried_alone(monkeypatch):
    trainers = Trainers(monkeypatch, memory=len(VARIANTS) - 1)
    found = trainers.measure()
    assert not side_by_side(found.blocks)
    assert {block.outcome for block in found.blocks} == {"completed"}
    assert {block.variant for block in found.blocks if block.launch == 1} == set(VARIANTS)
    assert len({(block.launch, block.turn, block.variant) for block in found.blocks}) == len(found.blocks)
    assert Speeds(found.blocks, "float32", 40, 10).speedup("float32", "mixed").low is not None


@pytest.mark.parametrize("outcome", ["out_of_memory", "diverged", "too_slow"])
def test_a_failed_variant_takes_no_further_turns(monkeypatch, outcome):
    trainers = Trainers(monkeypatch, {"mixed": outcome})
    found = trainers.measure()
    assert [block.outcome for block in found.blocks if block.variant == "mixed"] == [outcome]
    assert trainers.started.count("mixed") == 1 + (outcome == "out_of_memory")  # once more, alone
    assert side_by_side(found.blocks)
    assert {block.variant for block in found.blocks if block.launch == 2} == {"float32", REPEAT, "float32_2x"}


def test_a_measurement_ends_if_its_baseline_fails(monkeypatch):
    found = Trainers(monkeypatch, {"float32": "out_of_memory"}).measure()
    assert found.ended_because == "the baseline does not train"
    assert all(block.turn == 0 for block in found.blocks)
    speeds = Speeds(found.blocks, "float32", 40, 10)
    assert (speeds.variants, speeds.baseline_seconds) == ([], [])
    assert speeds.speedup("float32", "mixed").value is None
    assert speeds.epoch_seconds("float32") is None


@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("seconds", [0.05, 0.7, 10.0])
def test_even_a_slow_baseline_shares_its_turns_with_every_variant(monkeypatch, side_by_side, seconds):
    """The others take about as long as the baseline, twice as long, and forty times as long."""
    speeds = {"float32": 1, REPEAT: 1.04, "mixed": 0.5, "float32_2x": 1 / 40}
    trainers = Trainers(monkeypatch, speeds={name: speed / seconds for name, speed in speeds.items()})
    budget_seconds = 400 * seconds
    found = trainers.measure(budget_seconds=budget_seconds, side_by_side=side_by_side)
    measured = Speeds(found.blocks, "float32", 40, 10)
    turns_of = {
        name: {(block.launch, block.turn) for block in found.blocks if block.turn and block.variant == name}
        for name in VARIANTS
    }
    assert turns_of[REPEAT] == turns_of["float32"]
    assert len(turns_of["float32"]) >= (6 if side_by_side else 8)
    assert turns_of["float32_2x"] <= turns_of["mixed"] <= turns_of["float32"]
    for name in ("mixed", "float32_2x"):
        assert measured.speedup("float32", name).low is not None
        assert measured.log_speedup("float32", name, whole_epochs=True).ratio.low is not None
    validated = {(block.launch, block.turn) for block in found.blocks if block.num_validation_images}
    assert {turn % 4 for _, turn in validated} == {1}


def test_long_steps_need_fewer_turns(monkeypatch):
    """At ten seconds a step, two turns of four variants already take 80 s."""
    found = Trainers(monkeypatch, speeds=dict.fromkeys(VARIANTS, 0.1)).measure(budget_seconds=100)
    assert max(block.turn for block in found.blocks) == 2


def test_the_baseline_takes_part_in_turns_even_if_another_variant_comes_first(monkeypatch):
    """The other variant differs only in its learning rate, so it is not measured itself."""
    values = small_study().model_dump(mode="json")
    first = {"scaled": values["variants"]["float32"] | {"learning_rate_multiplier": 2.0}}
    study = small_study(variants=first | values["variants"])

    def found(_start, variants, *_rest):
        assert variants == ["float32", REPEAT, "float32_2x"]
        raise InterruptedError

    monkeypatch.setattr(measuring, "take_turns", found)
    with pytest.raises(InterruptedError):
        measuring.measure_benchmark(study, "narrow", Path(), True, print)
