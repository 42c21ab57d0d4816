"""Turns: their order, what becomes of the slow and the failed, and how much faster that says a variant is."""

import contextlib
import itertools
import math
import textwrap
import time

import numpy as np
import pytest
from conftest import REPOSITORY, small_study, timed, timed_blocks

from pipeline.comparison.finished_speeds import summarise_turns
from pipeline.errors import InputError
from pipeline.records.blocks import REPEAT, Block, besides_images
from pipeline.speed import measuring, turns
from pipeline.speed.measuring import is_settled
from pipeline.speed.turns import BLOCK_SECONDS, MIN_LAUNCHES, MIN_TURNS, balanced_orders, take_turns
from pipeline.speed.worker import Task, worker
from pipeline.statistics.launches import contrast, contrast_of_few_blocks, launch_effects, launch_spread
from pipeline.statistics.speeds import ONE, Speeds, speeds_of
from pipeline.study.schema import load_study

VARIANTS = ["float32", REPEAT, "float32_2x", "mixed"]


@pytest.mark.parametrize("num_variants", [1, 2, 3, 4, 5, 8, 9])
def test_each_stands_in_each_place_and_after_each_other_equally_often(num_variants):
    orders = balanced_orders(num_variants)
    assert all(sorted(order) == list(range(num_variants)) for order in orders)
    for place in range(num_variants):
        assert len({tuple(order).index(v) for order in orders for v in [order[place]]}) == 1
        standing = [order[place] for order in orders]
        assert {standing.count(variant) for variant in range(num_variants)} == {len(orders) // num_variants}
    followed = [pair for order in orders for pair in itertools.pairwise(order)]
    assert len({followed.count(pair) for pair in itertools.permutations(range(num_variants), 2)}) <= 1


class Trainers:
    """Trainers of known speed, in steps a second, on a clock that only they move; and what was asked of them."""

    def __init__(self, monkeypatch, outcomes=(), speeds=(), startup_seconds=1.0, memory=100):
        """In `memory` so many of them find room at once; one more ends the last that was started."""
        self.outcomes, self.speeds, self.startup_seconds = dict(outcomes), dict(speeds), startup_seconds
        self.memory, self.alive = memory, 0
        self.now = 0.0
        self.started: list[str] = []
        self.trained: list[tuple[str, int]] = []
        monkeypatch.setattr(turns.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(turns.os, "cpu_count", lambda: 1)

    @contextlib.contextmanager
    def start(self, variant):
        self.started.append(variant)
        self.now += self.startup_seconds
        self.alive += 1

        def train(task):
            num_steps = task.num_steps
            if variant in self.outcomes:
                return Block(outcome=self.outcomes[variant])
            if self.alive > self.memory and variant == VARIANTS[-1]:
                return Block(outcome="out_of_memory")
            self.trained.append((variant, num_steps))
            seconds = num_steps / self.speeds.get(variant, 20)
            self.now += seconds
            return Block(
                outcome="completed",
                num_steps=num_steps,
                num_images=num_steps,
                wall_seconds=seconds,
                num_validation_images=10 * task.with_validation,
                validation_seconds=0.01 if task.with_validation else None,
                peak_memory_bytes=1,
            )

        yield train
        self.alive -= 1

    def measure(self, *, budget_seconds=0.0, side_by_side=True, max_steps=100, unit=1, is_settled=lambda _: False):
        sizes = dict.fromkeys(VARIANTS, max_steps)
        return take_turns(self.start, sizes, unit, budget_seconds, side_by_side, is_settled, say=lambda _: None)


def test_every_launch_starts_all_and_turns_are_interleaved(monkeypatch):
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
    assert found.ended_because == "the budget is spent"


def test_blocks_take_as_long_for_every_variant_in_whole_units_of_what_there_is(monkeypatch):
    def steps_of(**how):
        trainers = Trainers(monkeypatch, speeds={"mixed": 40, "float32_2x": 1})
        blocks = trainers.measure(**how).blocks
        return {block.variant: block.num_steps for block in blocks if block.turn}

    assert BLOCK_SECONDS == 0.2
    assert steps_of() == {"float32": 4, REPEAT: 4, "mixed": 8, "float32_2x": 1}
    assert steps_of(max_steps=5)["mixed"] == 5
    assert steps_of(unit=5) == {"float32": 5, REPEAT: 5, "mixed": 10, "float32_2x": 5}


def test_a_budget_is_shared_by_launches_and_kept(monkeypatch):
    trainers = Trainers(monkeypatch)
    found = trainers.measure(budget_seconds=60)
    assert (
        len({block.launch for block in found.blocks}) == 5
    )  # each takes 4.4 s to start, the first 1.2 s more, and 3.2 s of turns at least
    assert 50 < found.spent_seconds <= 60


def test_it_ends_where_the_intervals_are_narrow_enough(monkeypatch):
    found = Trainers(monkeypatch).measure(budget_seconds=1000, is_settled=lambda _: True)
    assert {block.launch for block in found.blocks} == {1, 2}
    assert found.ended_because == "the intervals are as narrow as asked for"


def test_one_process_at_a_time_trains_all_its_blocks(monkeypatch):
    trainers = Trainers(monkeypatch)
    found = trainers.measure(side_by_side=False)
    assert not found.side_by_side
    assert not Speeds(found.blocks, "float32", 40, 10).side_by_side
    assert Speeds(trainers.measure().blocks, "float32", 40, 10).side_by_side
    runs = [variant for variant, _ in itertools.groupby(block.variant for block in found.blocks)]
    assert len(runs) == 2 * len(VARIANTS) - 1  # one ends a launch and begins the next


def test_of_two_launches_in_a_row_the_second_has_the_order_of_the_first_turned_around(monkeypatch):
    """So a machine that gets slower evenly slows every variant alike, and launches come in twos."""
    found = Trainers(monkeypatch).measure(side_by_side=False, budget_seconds=500)
    num_launches = len({block.launch for block in found.blocks})
    assert num_launches >= 4
    assert num_launches % 2 == 0
    places = {(block.launch, block.variant): block.place for block in found.blocks if block.turn}
    for launch in range(1, num_launches, 2):
        assert {places[launch, name] + places[launch + 1, name] for name in VARIANTS} == {1 + len(VARIANTS)}
    assert len({places[launch, "float32"] for launch in range(1, num_launches + 1)}) == len(VARIANTS)


def test_how_variants_took_turns_is_read_from_their_blocks(monkeypatch):
    side_by_side, in_a_row = (Trainers(monkeypatch).measure(side_by_side=each).blocks for each in (True, False))
    read = [Speeds(blocks, "float32", 1, 0, {}).side_by_side for blocks in (side_by_side, in_a_row, ())]
    assert read == [True, False, False]


def test_processes_that_do_not_fit_side_by_side_come_one_after_the_other(monkeypatch):
    trainers = Trainers(monkeypatch)
    monkeypatch.setattr(turns.psutil, "virtual_memory", lambda: type("Memory", (), {"available": 4}))
    found = trainers.measure()
    assert not found.side_by_side  # 1.5 × four processes of a byte, one of which there is
    assert trainers.started[:2] == ["float32", "float32"]  # alone, and then as the first in a row
    assert len(trainers.started) == 1 + len(VARIANTS) * MIN_LAUNCHES
    assert [block.turn for block in found.blocks if (block.launch, block.variant) == (1, "float32")].count(0) == 1


def test_what_finds_no_memory_beside_the_others_is_tried_alone_and_not_taken_for_too_large(monkeypatch):
    trainers = Trainers(monkeypatch, memory=len(VARIANTS) - 1)
    found = trainers.measure()
    assert not found.side_by_side
    assert {block.outcome for block in found.blocks} == {"completed"}
    assert {block.variant for block in found.blocks if block.launch == 1} == set(VARIANTS)
    assert len({(block.launch, block.turn, block.variant) for block in found.blocks}) == len(found.blocks)
    assert Speeds(found.blocks, "float32", 40, 10).speedup("float32", "mixed").low is not None


@pytest.mark.parametrize("outcome", ["out_of_memory", "diverged", "too_slow"])
def test_a_variant_that_fails_takes_no_further_part(monkeypatch, outcome):
    trainers = Trainers(monkeypatch, {"mixed": outcome})
    found = trainers.measure()
    assert [block.outcome for block in found.blocks if block.variant == "mixed"] == [outcome]
    assert trainers.started.count("mixed") == 1 + (outcome == "out_of_memory")  # once more, alone
    assert found.side_by_side
    assert {block.variant for block in found.blocks if block.launch == 2} == {"float32", REPEAT, "float32_2x"}


def test_without_its_baseline_a_measurement_ends(monkeypatch):
    found = Trainers(monkeypatch, {"float32": "out_of_memory"}).measure()
    assert found.ended_because == "the baseline does not train"
    assert all(block.turn == 0 for block in found.blocks)
    speeds = Speeds(found.blocks, "float32", 40, 10)
    assert (speeds.variants, speeds.baseline_seconds) == ([], [])
    assert speeds.speedup("float32", "mixed").ratio is None
    assert speeds.epoch_seconds("float32") is None


def test_an_epoch_of_a_variant_is_that_of_the_baseline_divided_by_the_speedup():
    speeds = timed(small_study(), {"float32": 2.0, "mixed": 0.5})["wide"]
    seconds = [speeds.epoch_seconds(name) for name in ("float32", "mixed", "float32_2x")]
    assert seconds == pytest.approx([2.0, 0.5, 1.0])


def test_what_is_hopelessly_slow_has_few_blocks(monkeypatch):
    """A single step of 20 s is as long as fifty blocks."""
    found = Trainers(monkeypatch, speeds={"mixed": 1 / 20}).measure(budget_seconds=200)
    assert sum(block.variant == "mixed" for block in found.blocks if block.turn) <= 4
    assert sum(block.variant == "float32" for block in found.blocks if block.turn) > 20


@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("seconds", [0.05, 0.7, 10.0])
def test_a_baseline_however_slow_shares_its_turns_with_every_variant(monkeypatch, side_by_side, seconds):
    """The variants take a little longer or less than it, and twice and forty times as long."""
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
    assert len(turns_of["float32"]) >= (8 if side_by_side else 4)
    assert turns_of["float32_2x"] < turns_of["mixed"] <= turns_of["float32"]
    assert {"float32", REPEAT, "mixed"} <= set(measured.often)
    for name in ("mixed", "float32_2x"):
        assert measured.speedup("float32", name).low is not None
        assert measured.speedup("float32", name, whole_epochs=True).low is not None
    validated = {(block.launch, block.turn) for block in found.blocks if block.num_validation_images}
    assert {turn % 4 for _, turn in validated} == {1}


def test_long_steps_need_fewer_turns(monkeypatch):
    """Ten seconds each: 80 s of a launch and no more are made anyway."""
    trainers = Trainers(monkeypatch, speeds=dict.fromkeys(VARIANTS, 0.1))
    found = trainers.measure(budget_seconds=100)
    assert max(block.turn for block in found.blocks) == 2


def test_an_epoch_pays_once_for_a_call_of_prediction():
    """A call of 20 ms and 1 ms an image, by what it does and by two calls of fewer images."""
    whole = Block(
        outcome="completed",
        num_steps=1,
        num_images=1,
        wall_seconds=1.0,
        num_validation_images=100,
        validation_seconds=0.12,
    )
    assert whole.seconds_of(2, 100) == pytest.approx(2.12)
    call_seconds = besides_images(0.06, 40, 0.03, 10)
    assert call_seconds == pytest.approx(0.02)
    update = {"num_validation_images": 40, "validation_seconds": 0.06, "validation_call_seconds": call_seconds}
    assert whole.model_copy(update=update).seconds_of(2, 100) == pytest.approx(2.12)
    assert besides_images(0.06, 40, 0.07, 10) == 0.06  # a stall: no more than there is
    assert besides_images(0.06, 40, 0.01, 10) == 0
    with pytest.raises(ValueError, match="a part of validation_seconds"):
        Block.model_validate(whole.model_dump() | {"validation_call_seconds": 0.2})


def test_a_single_slow_block_does_not_move_the_median():
    log_seconds = np.zeros((2, 2, 5))
    log_seconds[:, 1] = -math.log(2)
    log_seconds[0, 1, 3] = 5.0
    log_seconds[1, 0, 0] = np.nan  # no block
    assert launch_effects(log_seconds)[:, 1] == pytest.approx(-math.log(2))


def test_the_interval_rests_on_how_launches_differ():
    """Worked by hand: residuals ±0.01 in a 2 × 2 layout, one degree of freedom, s = 0.02, t = 12.706."""
    effects = np.array([[0.0, -0.48], [0.0, -0.52]])
    spread, freedom = launch_spread(effects)
    assert (spread, freedom) == (pytest.approx(0.02), 1)
    ratio = contrast(effects, [1, -1]).ratio
    assert ratio.ratio == pytest.approx(math.exp(0.5))
    half = 12.7062 * 0.02 * math.sqrt(2 / 2)
    assert (math.log(ratio.low), math.log(ratio.high)) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-4)
    assert math.log(ratio.new_high) == pytest.approx(0.5 + 12.7062 * 0.02 * math.sqrt(2 * 1.5), abs=1e-4)


def test_two_that_are_measured_as_one_have_the_same_speed():
    speeds = Speeds(timed_blocks(small_study(), "wide", {}, spread=0.01), "float32", 40, 10)
    assert speeds.log_speedup("float32", "float32") == ONE
    assert speeds.log_speedup("mixed", "mixed") == ONE


def test_one_launch_gives_no_interval():
    assert contrast(np.array([[0.0, -0.5]]), [1, -1]).ratio.low is None


def test_a_variant_with_few_blocks_has_an_interval_of_its_own():
    """It is measured less well than the others, and makes their intervals no wider."""
    study = small_study()
    blocks = timed_blocks(study, "wide", {}, spread=0.01)
    few = [b for b in blocks if b.variant != "mixed" or b.turn == 0 or (b.turn, b.launch) in ((1, 1), (1, 2))]
    blocks = [
        b.model_copy(update={"wall_seconds": b.wall_seconds * b.launch}) if b.variant == "mixed" else b for b in few
    ]
    speeds = Speeds([b for b in blocks if b.launch < 3], "float32", 40, 10)
    assert "mixed" not in speeds.often
    own, others = speeds.speedup("float32", "mixed"), speeds.speedup("float32", "mixed_2x")
    assert math.log(own.high / own.low) > 20 * math.log(others.high / others.low)


def test_few_blocks_make_an_interval_wider_until_it_holds_the_truth():
    """Launches vary by 1.5 % and blocks by 14 %, as measured; the last variant is in every fourth of 20 turns."""
    rng = np.random.default_rng(0)
    for num_launches in (2, 4):
        held, as_if_many = 0, 0
        for _ in range(500):
            seconds = rng.normal(0, 0.015, (num_launches, 6, 1)) + rng.normal(0, 0.14, (num_launches, 6, 20))
            seconds[:, -1] = np.where(np.arange(20) % 4 == 3, seconds[:, -1], np.nan)
            effects = launch_effects(seconds)
            ratio = contrast_of_few_blocks(seconds[:, [0, 1, 5]], [0.5, 0.5, -1], *launch_spread(effects[:, :-1])).ratio
            held += ratio.low <= 1 <= ratio.high
            ratio = contrast(effects, [0.5, 0.5, 0, 0, 0, -1]).ratio
            as_if_many += ratio.low <= 1 <= ratio.high
        assert held >= 0.93 * 500
        seconds[0] = np.nan
        assert contrast_of_few_blocks(seconds[:, [0, 5]], [1, -1], 0.01, 5) is None
        assert as_if_many < 0.88 * 500


def test_a_block_beside_another_process_on_the_gpu_tells_nothing_of_speed():
    study = small_study()
    blocks = timed_blocks(study, "wide", {}, spread=0.01)
    shared = [
        block.model_copy(update={"num_gpu_processes": 2, "wall_seconds": 9 * block.wall_seconds})
        if (block.variant, block.launch, block.turn) == ("mixed", 1, 1)
        else block.model_copy(update={"num_gpu_processes": 1})
        for block in blocks
    ]
    alone, beside = speeds_of(study, "wide", blocks), speeds_of(study, "wide", shared)
    assert [summarise_turns(study, "wide", each).num_beside_others for each in (alone, beside)] == [0, 1]
    assert beside.speedup("float32", "mixed").ratio == pytest.approx(alone.speedup("float32", "mixed").ratio, rel=0.02)
    shared = [b.model_copy(update={"num_gpu_processes": 2}) if b.variant == "mixed" else b for b in blocks]
    assert speeds_of(study, "wide", shared).speedup("float32", "mixed").ratio is None


def blocks_with(study, changes, num_launches=4):
    """Blocks of as many launches, alike but for the factors in `changes`, by variant and launch."""
    first = [block for block in timed_blocks(study, "wide", {}, spread=0.001) if block.launch == 1]
    wiggle = np.random.default_rng(1).normal(1, 0.005, (num_launches, 9))
    names = list(dict.fromkeys(block.variant for block in first))
    return [
        block.model_copy(
            update={
                "launch": launch,
                "wall_seconds": block.wall_seconds
                * wiggle[launch - 1, names.index(block.variant)]
                * changes.get(block.variant, lambda _: 1.0)(launch),
            }
        )
        for launch in range(1, num_launches + 1)
        for block in first
    ]


def few(blocks, variant):
    """Without the second of the two turns of `variant`."""
    return [block for block in blocks if block.variant != variant or block.turn < 2]


@pytest.mark.parametrize(
    ("times_slower", "varies_by", "settled"),
    [(1.0, 0.0, True), (2.0, 0.12, False), (4.0, 0.12, True), (4.0, 0.4, False)],
)
def test_a_measurement_settles_where_every_interval_is_narrow(times_slower, varies_by, settled):
    """Also that of a variant with few blocks: ±5 %, or ±15 % where it is more than three times slower."""
    study = small_study()
    mixed = {"mixed": lambda launch: times_slower * math.exp(varies_by * (-1) ** launch / 2)}
    blocks = few(blocks_with(study, mixed), "mixed")
    speeds = speeds_of(study, "wide", blocks)
    assert "mixed" not in speeds.often
    assert speeds.is_settled(0.05) is is_settled(study, "wide", blocks) is settled
    if times_slower > 3:
        assert speeds.half_width() < 0.02
    assert (speeds.half_width() <= 0.05) is (settled or times_slower > 3)


def test_a_measurement_does_not_settle_before_its_fourth_launch():
    study = small_study()
    assert speeds_of(study, "wide", blocks_with(study, {}, 2)).half_width() < 0.05
    assert [is_settled(study, "wide", blocks_with(study, {}, number)) for number in (2, 3, 4)] == [False, False, True]


def test_the_baseline_over_itself_stands_for_variants_where_all_are_slow():
    study = small_study()
    slow = dict.fromkeys(["float32_2x", "mixed", "mixed_2x"], lambda _: 5.0)
    assert speeds_of(study, "wide", blocks_with(study, slow)).half_width() < 0.05


def test_the_baseline_takes_part_in_turns_where_another_variant_stands_before_it(monkeypatch):
    """It differs in its learning rate alone, and is measured as the baseline is."""
    values = small_study().model_dump(mode="json")
    first = {"scaled": values["variants"]["float32"] | {"learning_rate_multiplier": 2.0}}
    study = small_study(variants=first | values["variants"])

    def found(_start, max_steps, *_rest):
        assert list(max_steps) == ["float32", REPEAT, "float32_2x"]
        raise InterruptedError

    monkeypatch.setattr(measuring, "take_turns", found)
    with pytest.raises(InterruptedError):
        measuring.measure_benchmark(study, "narrow", True, print)


def test_the_quick_study_measures_speed_in_four_minutes():
    study = load_study(REPOSITORY / "params.yaml")
    assert len(study.benchmarks) * study.speed.budget_seconds <= 240


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that writes a module and returns its name."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(code: str) -> list[str]:
        (tmp_path / "trainer.py").write_text(textwrap.dedent(code))
        return ["trainer"]

    return write


@pytest.mark.parametrize("task", [Task(7), Task(100, with_validation=True)])
def test_a_task_is_a_line(task):
    assert Task.read(task.line() + "\n") == task


def test_a_process_answers_line_by_line(module):
    command = module("""
        for line in iter(input, None):
            print('{"outcome": "diverged", "num_steps": %s}' % line, flush=True)
    """)
    with worker(command) as train:
        assert train(Task(100)).num_steps == 100
        assert train(Task(50)).num_steps == 50


def test_a_process_that_the_system_ends_had_too_little_memory(module):
    with worker(module("import os; input(); os.kill(os.getpid(), 9)")) as train:
        assert train(Task(1)).outcome == "out_of_memory"


def test_a_process_that_fails_says_why(module):
    command = module("import sys; print('engine: chatter\\nerror: no such thing', file=sys.stderr); sys.exit(2)")
    with worker(command) as train, pytest.raises(InputError) as raised:
        train(Task(1))
    assert str(raised.value) == "no such thing"


def test_a_process_that_ends_without_a_word_is_told_of(module):
    with worker(module("import os; os._exit(3)")) as train, pytest.raises(InputError) as raised:
        train(Task(1))
    assert str(raised.value) == "trainer ended with status 3"


def test_a_process_that_crashes_leaves_its_traceback(module):
    command = module("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with worker(command) as train, pytest.raises(InputError, match="Segmentation fault"):
        train(Task(1))


def test_what_a_process_never_read_does_not_hide_why_it_ended(module):
    command = module("import sys; sys.exit('error: no such thing')")

    def ask() -> None:
        with worker(command) as train:
            time.sleep(0.5)  # by then nobody reads
            train(Task(1))

    with pytest.raises(InputError, match="no such thing"):
        ask()


def test_a_process_that_takes_too_long_for_an_answer_is_ended(module):
    with worker(module("import time; input(); time.sleep(600)"), max_seconds=0.5) as train:
        assert train(Task(1)).outcome == "too_slow"
