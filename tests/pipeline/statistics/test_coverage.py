"""Intervals and tests hold as often as they say, in simulated studies."""

import numpy as np
import pytest
from bench import interval_coverage as intervals


def test_an_interval_of_speed_holds_the_truth_as_often_as_it_says():
    held = intervals.speed(np.random.default_rng(0), intervals.World(), 3, 500)
    assert all(0.92 <= share <= 0.98 for share in held.values()), held


@pytest.mark.parametrize("is_paired", [True, False])
def test_equivalence_errs_as_seldom_and_finds_as_often_as_it_says(is_paired):
    shares = intervals.accuracy(np.random.default_rng(1), 5, 1000, is_paired)
    assert 0.93 <= shares["difference, 95 %"] <= 0.97
    errors = [share for name, share in shares.items() if name.startswith("false")]
    assert len(errors) == 4
    assert max(errors) <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
    assert shares["equivalent when nothing differs"] == pytest.approx(shares["the same, as planned"], abs=0.04)
