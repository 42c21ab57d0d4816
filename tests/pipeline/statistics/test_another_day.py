"""The interval for another day, worked out by hand."""

import math

import pytest

from pipeline.statistics.another_day import on_another_day, reach
from pipeline.statistics.contrasts import LogRatio
from pipeline.statistics.intervals import Estimate

T_975_6 = 2.446912  # Student's t from a printed table


def test_the_interval_for_another_day_matches_a_calculation_by_hand():
    """An error of 0.08 / √4 within, 0.03 from sitting to sitting: 0.05 together."""
    found = on_another_day(LogRatio(0.5, 0.08, 1000, 4), 0.03)
    half = T_975_6 * 0.05
    assert found.value == pytest.approx(math.exp(0.5))
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)
    assert reach(0.1) == pytest.approx(0.1 * T_975_6)


def test_the_interval_is_never_narrower_than_the_sittings_own():
    """With a single degree of freedom."""
    own = LogRatio(0.5, 0.1, 1, 3)
    found = on_another_day(own, 0.06)
    assert (found.low, found.high) == pytest.approx((own.ratio.low, own.ratio.high))


def test_a_sitting_without_an_interval_has_none_for_another_day():
    assert on_another_day(None, 0.06) == Estimate()
    assert on_another_day(LogRatio(0.5, 0.0, 0, 1), 0.06).high is None
    assert on_another_day(LogRatio(0.5, 0.1, 4, 2), 0.06).high is None  # of two launches
