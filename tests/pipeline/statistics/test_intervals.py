"""Intervals of means, ratios and shares: worked by hand, and against a second implementation to 1e-9."""

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.stats.proportion import proportion_confint

from pipeline.statistics import intervals


def test_equal_values_have_an_interval_of_zero_width():
    for num_more in (0, 1):
        assert intervals.mean([2.0, 2.0, 2.0], num_more=num_more) == intervals.Estimate(2.0, 2.0, 2.0)


@pytest.mark.parametrize("num_seeds", [0, 1, 2])
def test_too_few_seeds_give_no_interval(num_seeds):
    found = intervals.mean([1.0, 2.0][:num_seeds])
    assert (found.low, found.high) == (None, None)
    assert (found.value is None) == (num_seeds == 0)


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_intervals_of_means_and_new_values_agree_with_a_regression_on_a_constant(num_seeds):
    values = np.random.default_rng(num_seeds).normal(2.0, 1.0, num_seeds)
    frame = sm.OLS(values, np.ones(num_seeds)).fit().get_prediction([1.0]).summary_frame(alpha=0.05)
    result = intervals.mean(values)
    expected = (frame["mean"][0], frame["mean_ci_lower"][0], frame["mean_ci_upper"][0])
    assert (result.value, result.low, result.high) == pytest.approx(expected, abs=1e-9)
    expected = (frame["obs_ci_lower"][0], frame["obs_ci_upper"][0])
    new = intervals.mean(values, num_more=1)
    assert (new.low, new.high) == pytest.approx(expected, abs=1e-9)


def test_the_interval_of_a_proportion_matches_a_calculation_by_hand():
    """None of three: the upper limit solves (1 − p)³ = 0.025."""
    result = intervals.proportion(0, 3)
    assert (result.low, result.high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 3), abs=1e-9))


def test_intervals_of_proportions_agree_with_statsmodels():
    for total in (1, 3, 5, 20):
        for count in range(total + 1):
            expected = proportion_confint(count, total, alpha=0.05, method="beta")
            result = intervals.proportion(count, total)
            assert (result.low, result.high) == pytest.approx(tuple(expected), abs=1e-9)


def test_holms_adjustment_matches_a_calculation_by_hand():
    """The smallest of four counts four times, the next three times, and none falls below the one before it."""
    assert intervals.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert intervals.holm([0.9, 0.8]) == [1.0, 1.0]


def test_holms_adjustment_counts_comparisons_that_could_not_be_made():
    assert intervals.holm([None, 0.01, None, 0.02]) == [None, pytest.approx(0.04), None, pytest.approx(0.06)]
