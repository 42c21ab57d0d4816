"""Speeds from timed blocks: ratios, their intervals, and the rule for ending a measurement."""

import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import small_study, timed_blocks

from pipeline.records.blocks import REPEAT, Block, besides_images
from pipeline.speed.measuring import half_width, is_settled
from pipeline.statistics.contrasts import contrast, launch_effects, launch_spread
from pipeline.statistics.speeds import ONE, speeds_of


def test_an_epoch_counts_the_fixed_cost_of_a_prediction_call_once():
    """A call costs 20 ms and 1 ms an image, measured whole or by two calls with fewer images."""
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


def test_a_single_slow_block_does_not_move_the_median():
    log_seconds = np.zeros((2, 2, 5))
    log_seconds[:, 1] = -math.log(2)
    log_seconds[0, 1, 3] = 5.0
    log_seconds[1, 0, 0] = np.nan  # no block
    assert launch_effects(log_seconds)[:, 1] == pytest.approx(-math.log(2))


def test_the_interval_follows_from_differences_between_launches():
    """Worked by hand: residuals ±0.01 in two of three launches of two variants, two degrees of freedom, t = 4.303."""
    effects = np.array([[0.0, -0.48], [0.0, -0.52], [0.0, -0.5]])
    spread, freedom = launch_spread(effects)
    assert (spread, freedom) == (pytest.approx(0.01 * math.sqrt(2)), 2)
    ratio = contrast(effects, [1, -1]).ratio
    assert ratio.value == pytest.approx(math.exp(0.5))
    half = 4.30265 * 0.01 * math.sqrt(2) * math.sqrt(2 / 3)
    assert (math.log(ratio.low), math.log(ratio.high)) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-4)
    speeds = speeds_of(small_study(), "wide", timed_blocks(small_study(), "wide", {}, spread=0.01))
    assert speeds.log_speedup("mixed", "mixed") == ONE  # two that are measured as one


def test_the_times_of_an_epoch_follow_from_both_processes_of_the_baseline():
    """The second process takes 4 s where the first takes 1 s: together 2 s, by the geometric mean."""
    blocks = [
        block.model_copy(update={"wall_seconds": block.wall_seconds * (4 if block.variant == REPEAT else 1)})
        for block in timed_blocks(small_study(), "wide", {"mixed": 0.5})
    ]
    speeds = speeds_of(small_study(), "wide", blocks)
    seconds = [speeds.epoch_seconds(name) for name in ("float32", "mixed", REPEAT)]
    assert seconds == pytest.approx([2.0, 0.5, 4.0])


def test_speed_needs_three_launches_for_an_interval_and_memory_two():
    blocks = timed_blocks(small_study(), "wide", {}, spread=0.01)
    of_two, of_three = (
        speeds_of(small_study(), "wide", [block for block in blocks if block.launch <= number]) for number in (2, 3)
    )
    for speeds, has_interval in ((of_two, False), (of_three, True)):
        ratio = speeds.speedup("float32", "mixed")
        assert ratio.value == pytest.approx(1, rel=0.05)
        found = (ratio.low, ratio.high, half_width(speeds))
        assert [value is not None for value in found] == [has_interval] * 3
        assert speeds.memory_ratio("float32", "mixed").high is not None


def test_blocks_beside_another_gpu_process_do_not_count_for_speed():
    study = small_study()
    blocks = timed_blocks(study, "wide", {}, spread=0.01)
    shared = [
        block.model_copy(update={"num_gpu_processes": 2, "wall_seconds": 9 * block.wall_seconds})
        if (block.variant, block.launch, block.turn) == ("mixed", 1, 1)
        else block.model_copy(update={"num_gpu_processes": 1})
        for block in blocks
    ]
    alone, beside = speeds_of(study, "wide", blocks), speeds_of(study, "wide", shared)
    assert beside.speedup("float32", "mixed").value == pytest.approx(alone.speedup("float32", "mixed").value, rel=0.02)
    shared = [b.model_copy(update={"num_gpu_processes": 2}) if b.variant == "mixed" else b for b in blocks]
    assert speeds_of(study, "wide", shared).speedup("float32", "mixed").value is None


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


@pytest.mark.parametrize(("varies_by", "settled"), [(0.0, True), (0.4, False)])
def test_a_measurement_settles_once_every_interval_is_narrow(varies_by, settled):
    study = small_study()
    blocks = blocks_with(study, {"mixed": lambda launch: 4.0 * math.exp(varies_by * (-1) ** launch / 2)})
    assert is_settled(study, "wide", blocks) is settled
    assert (half_width(speeds_of(study, "wide", blocks)) <= 0.05) is settled


def test_a_measurement_does_not_settle_before_its_fourth_launch():
    study = small_study()
    assert half_width(speeds_of(study, "wide", blocks_with(study, {}, 3))) < 0.05
    assert [is_settled(study, "wide", blocks_with(study, {}, number)) for number in (2, 3, 4)] == [False, False, True]


def test_the_repeated_baseline_stands_in_for_missing_variants():
    study = small_study()
    blocks = [block for block in blocks_with(study, {}) if block.variant in ("float32", REPEAT)]
    assert half_width(speeds_of(study, "wide", blocks)) < 0.05


def test_memory_leaves_out_launches_that_compiled_for_the_others():
    study = small_study()
    blocks = [
        block.model_copy(update={"peak_memory_bytes": size * (3 if block.launch == 1 else 1)})
        for block in timed_blocks(study, "wide", {})
        for size in [2**19 if block.variant == "mixed" else 2**20]
    ]
    once, every_time = (
        replace(speeds_of(study, "wide", blocks), num_compiling=num_compiling) for num_compiling in (1, 0)
    )
    assert once.peak_bytes("mixed") == pytest.approx(2**19)
    assert every_time.peak_bytes("mixed") == pytest.approx(2**19 * 3 ** (1 / 3))
    assert once.memory_ratio("float32", "mixed").high == pytest.approx(0.5)
    assert replace(once, num_compiling=3).peak_bytes("mixed") is None
