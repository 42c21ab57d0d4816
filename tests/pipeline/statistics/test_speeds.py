"""What blocks say: how much faster a variant is, how sure that is, and where a measurement may end."""

import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import small_study, timed_blocks

from pipeline.records.blocks import REPEAT, Block, besides_images
from pipeline.speed.measuring import is_settled
from pipeline.statistics.speeds import (
    ONE,
    Speeds,
    contrast,
    contrast_of_few_blocks,
    launch_effects,
    launch_spread,
    speeds_of,
)


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
    with pytest.raises(ValueError, match="validation_call_seconds exceed"):
        Block.model_validate(whole.model_dump() | {"validation_call_seconds": 0.2})


def test_a_single_slow_block_does_not_move_the_median():
    log_seconds = np.zeros((2, 2, 5))
    log_seconds[:, 1] = -math.log(2)
    log_seconds[0, 1, 3] = 5.0
    log_seconds[1, 0, 0] = np.nan  # no block
    assert launch_effects(log_seconds)[:, 1] == pytest.approx(-math.log(2))


def test_the_interval_rests_on_how_launches_differ():
    """Worked by hand: residuals ±0.01 in two of three launches of two variants, two degrees of freedom, t = 4.303."""
    effects = np.array([[0.0, -0.48], [0.0, -0.52], [0.0, -0.5]])
    spread, freedom = launch_spread(effects)
    assert (spread, freedom) == (pytest.approx(0.01 * math.sqrt(2)), 2)
    ratio = contrast(effects, [1, -1]).ratio
    assert ratio.ratio == pytest.approx(math.exp(0.5))
    half = 4.30265 * 0.01 * math.sqrt(2) * math.sqrt(2 / 3)
    assert (math.log(ratio.low), math.log(ratio.high)) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-4)
    speeds = Speeds(timed_blocks(small_study(), "wide", {}, spread=0.01), "float32", 40, 10)
    assert speeds.log_speedup("mixed", "mixed") == ONE  # two that are measured as one


def test_speed_has_an_interval_from_three_launches_on_and_memory_from_two():
    blocks = timed_blocks(small_study(), "wide", {}, spread=0.01)
    of_two, of_three = (
        Speeds([block for block in blocks if block.launch <= number], "float32", 40, 10) for number in (2, 3)
    )
    for speeds, has_interval in ((of_two, False), (of_three, True)):
        ratio = speeds.speedup("float32", "mixed")
        assert ratio.ratio == pytest.approx(1, rel=0.05)
        found = (ratio.low, ratio.high, speeds.half_width())
        assert [value is not None for value in found] == [has_interval] * 3
        assert speeds.memory_ratio("float32", "mixed").high is not None
    assert not of_two.is_settled(1.0)


def test_few_blocks_make_an_interval_wider_until_it_holds_the_truth():
    """Launches vary by 1.5 % and blocks by 14 %, as measured; the last variant is in every fourth of 20 turns."""
    rng = np.random.default_rng(0)
    for num_launches in (3, 5):
        held, as_if_many = 0, 0
        for _ in range(250):
            seconds = rng.normal(0, 0.015, (num_launches, 6, 1)) + rng.normal(0, 0.14, (num_launches, 6, 20))
            seconds[:, -1] = np.where(np.arange(20) % 4 == 3, seconds[:, -1], np.nan)
            effects = launch_effects(seconds)
            ratio = contrast_of_few_blocks(seconds[:, [0, 1, 5]], [0.5, 0.5, -1], *launch_spread(effects[:, :-1])).ratio
            held += ratio.low <= 1 <= ratio.high
            ratio = contrast(effects, [0.5, 0.5, 0, 0, 0, -1]).ratio
            as_if_many += ratio.low <= 1 <= ratio.high
        assert held >= 0.93 * 250
        seconds[0] = np.nan
        assert contrast_of_few_blocks(seconds[:, [0, 5]], [1, -1], 0.01, 5) is None
        assert as_if_many < 0.88 * 250


def test_the_spread_of_a_variant_with_few_blocks_is_that_of_the_others():
    """Worked by hand. Only one of four variants varies between launches, by 0.03, -0.03 and 0 in log seconds.

    The residuals of a launch are 3/4 of that and three times -1/4: 3/4 of its square, 0.00135 in all. The variance of
    one effect is 0.00135 / (2 * 3), its root 0.015. The fifth variant's own launches don't count, nor its turns, which
    are alike.
    """
    factors = {"float32_2x": lambda launch: math.exp((0.03, -0.03, 0.0)[launch - 1])}
    factors["mixed"] = lambda launch: 1.1**launch
    blocks = [
        block.model_copy(
            update={
                "turn": turn,
                "wall_seconds": block.wall_seconds * factors.get(block.variant, lambda _: 1.0)(block.launch),
            }
        )
        for block in timed_blocks(small_study(), "wide", {})
        for turn in ([2, 3, 4, 5] if block.turn == 2 and block.variant != "mixed" else [block.turn])
    ]
    speeds = Speeds(blocks, "float32", 40, 10)
    assert speeds.often == ["float32", REPEAT, "float32_2x", "mixed_2x"]
    found = speeds.log_speedup("float32", "mixed")
    assert found.mean == pytest.approx(-2 * math.log(1.1))
    # Half the baseline, half its second process, and the candidate.
    assert found.of_one_launch == pytest.approx(0.015 * math.sqrt(1 / 4 + 1 / 4 + 1))


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


@pytest.mark.parametrize(
    ("times_slower", "varies_by", "settled"),
    [(1.0, 0.0, True), (2.0, 0.12, False), (4.0, 0.12, True), (4.0, 0.4, False)],
)
def test_a_measurement_settles_where_every_interval_is_narrow(times_slower, varies_by, settled):
    """Also that of a variant with few blocks: ±5 %, or ±15 % where it is more than three times slower."""
    study = small_study()
    mixed = {"mixed": lambda launch: times_slower * math.exp(varies_by * (-1) ** launch / 2)}
    blocks = [block for block in blocks_with(study, mixed) if block.variant != "mixed" or block.turn < 2]
    speeds = speeds_of(study, "wide", blocks)
    assert "mixed" not in speeds.often
    assert speeds.is_settled(0.05) is is_settled(study, "wide", blocks) is settled
    if times_slower > 3:
        assert speeds.half_width() < 0.02
    assert (speeds.half_width() <= 0.05) is (settled or times_slower > 3)


def test_a_measurement_does_not_settle_before_its_fourth_launch():
    study = small_study()
    assert speeds_of(study, "wide", blocks_with(study, {}, 3)).half_width() < 0.05
    assert [is_settled(study, "wide", blocks_with(study, {}, number)) for number in (2, 3, 4)] == [False, False, True]


def test_the_baseline_over_itself_stands_for_variants_where_all_are_slow():
    study = small_study()
    slow = dict.fromkeys(["float32_2x", "mixed", "mixed_2x"], lambda _: 5.0)
    assert speeds_of(study, "wide", blocks_with(study, slow)).half_width() < 0.05


def test_memory_is_not_that_of_a_launch_that_compiled_what_others_found():
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
