"""What repetitions of a measurement in turns show of its intervals: on made-up blocks, whose truth is known."""

import math

import numpy as np
import pytest
from conftest import small_study, timed_blocks

from bench import coverage
from bench.coverage import PLANTED, TaggedBlock

NUM_REPETITIONS = 8


def repetitions(study, spread: float) -> list[TaggedBlock]:
    """Return blocks of three launches each, among them a planted variant that takes 5 % longer than the baseline."""
    baseline, wiggle = study.comparison.baseline, np.random.default_rng(0)
    found = []
    for repetition in range(1, NUM_REPETITIONS + 1):
        blocks = timed_blocks(study, "wide", {})
        blocks += [
            each.model_copy(update={"variant": PLANTED, "place": 9, "wall_seconds": 1.05 * each.wall_seconds})
            for each in blocks
            if each.variant == baseline
        ]
        keys = sorted({(each.launch, each.variant) for each in blocks})
        factors = {key: math.exp(wiggle.normal(0, spread)) for key in keys}
        for each in sorted(blocks, key=lambda block: (block.launch, block.turn)):
            seconds = each.wall_seconds * factors[each.launch, each.variant]
            found.append(TaggedBlock(**each.model_dump() | {"wall_seconds": seconds}, repetition=repetition))
    return found


@pytest.mark.parametrize(("spread", "fewest", "most"), [(0.005, 0.9, 1.0), (0.04, 0.0, 0.6)])
def test_a_planted_difference_is_found_as_often_as_launches_vary_little(monkeypatch, spread, fewest, most):
    monkeypatch.setattr(coverage, "NUM_DRAWS", 60)
    study = small_study()
    found = coverage.show(study, "wide", repetitions(study, spread), num_launches=[9])
    few, many = found["drawn"]
    assert (few["launches"], many["launches"]) == (3, 9)
    assert fewest <= few["found_5_percent"] <= most
    assert many["half_width"] < few["half_width"]
    assert many["found_5_percent"] >= few["found_5_percent"]
    assert few["coverage_of_all"] > 0.8
    assert few["planted"] == pytest.approx(1 / 1.05, abs=2 * spread / math.sqrt(NUM_REPETITIONS))
    assert found["real"]["intervals"] == NUM_REPETITIONS * (len(found["speedups"]) - 1)
