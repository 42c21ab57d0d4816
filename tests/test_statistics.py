"""Golden cases worked by hand, and every interval against a second implementation."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from pipeline import statistics

# Student's t with 2 and 3 degrees of freedom, from a printed table.
T_975_2, T_95_2, T_90_2 = 4.302653, 2.919986, 1.885618


def test_ratio_by_hand():
    """Blocks 1, 2 and 4 times as fast: mean log 2, spread log 2, standard error log 2 / √3."""
    result = statistics.ratio(np.log([1.0, 2.0, 4.0]))
    half = T_975_2 * math.log(2) / math.sqrt(3)
    assert result.ratio == pytest.approx(2.0)
    assert result.low == pytest.approx(2.0 * math.exp(-half), rel=1e-6)
    assert result.high == pytest.approx(2.0 * math.exp(half), rel=1e-6)


@pytest.mark.parametrize("num_blocks", [0, 1, 2])
def test_too_few_blocks_give_no_interval(num_blocks):
    ratio = statistics.ratio(np.log([1.0, 2.0])[:num_blocks])
    assert (ratio.low, ratio.high) == (None, None)
    assert (ratio.ratio is None) == (num_blocks == 0)
    assert statistics.difference([0.5] * num_blocks).low95 is None
    test = statistics.equivalence([0.0] * num_blocks, 1.0)
    assert (test.outcome, test.p_value, test.detectable_margin_pp) == ("inconclusive", None, None)


def test_difference_by_hand():
    result = statistics.difference([-1.0, 0.0, 1.0])
    error = 1 / math.sqrt(3)
    assert result.mean == 0.0
    assert result.high90 == pytest.approx(T_95_2 * error, rel=1e-6)
    assert result.low95 == pytest.approx(-T_975_2 * error, rel=1e-6)


def test_intervals_agree_with_other_implementations():
    values = np.random.default_rng(0).normal(0.3, 1.0, 7)
    result = statistics.difference(values)
    for confidence, low, high in ((0.90, result.low90, result.high90), (0.95, result.low95, result.high95)):
        paired = stats.ttest_rel(values, np.zeros(7)).confidence_interval(confidence)
        assert (low, high) == pytest.approx(tuple(paired), abs=1e-9)
        assert (low, high) == pytest.approx(DescrStatsW(values).tconfint_mean(1 - confidence), abs=1e-9)


@pytest.mark.parametrize(
    ("differences", "margin", "outcome"),
    [
        ([-0.1, 0.0, 0.1], 1.0, "equivalent"),
        ([0.49, 0.5, 0.51], 1.0, "equivalent but shifted"),
        ([-5.0, -5.1, -4.9], 1.0, "different"),
        ([-2.0, 0.0, 2.0], 1.0, "inconclusive"),
        ([0.0, 0.0, 0.0], 1.0, "equivalent"),
        ([0.5, 0.5, 0.5], 1.0, "equivalent but shifted"),
        ([1.5, 1.5, 1.5], 1.0, "different"),
    ],
)
def test_the_four_outcomes(differences, margin, outcome):
    assert statistics.equivalence(differences, margin).outcome == outcome


def test_tost_is_the_larger_of_two_one_sided_tests():
    values = np.random.default_rng(1).normal(0.2, 0.5, 6)
    lower = stats.ttest_1samp(values, -1.0, alternative="greater").pvalue
    upper = stats.ttest_1samp(values, 1.0, alternative="less").pvalue
    assert statistics.equivalence(values, 1.0).p_value == pytest.approx(max(lower, upper), abs=1e-9)


def test_tost_at_5_percent_is_the_90_percent_interval_within_the_margin():
    rng = np.random.default_rng(2)
    for _ in range(200):
        values = rng.normal(rng.normal(0, 0.5), 0.6, 5)
        interval = statistics.difference(values)
        assert interval.low90 is not None
        within = interval.low90 > -1.0 and interval.high90 < 1.0
        assert (statistics.equivalence(values, 1.0).p_value < 0.05) == within


def test_detectable_margin_by_hand():
    """Three blocks of spread 1: (2.920 + 1.886) / √3."""
    assert statistics.equivalence([-1.0, 0.0, 1.0], 1.0).detectable_margin_pp == pytest.approx(
        (T_95_2 + T_90_2) / math.sqrt(3), rel=1e-6
    )
