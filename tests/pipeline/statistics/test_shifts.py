"""A campaign against its baseline: bands worked out by hand, and how often they give a false alarm."""

import math

import numpy as np
import pytest
from bench.drift_alarms import rates
from scipy import stats

from pipeline.statistics.shifts import shift, shift_of_shares, shift_of_speeds

T = stats.t.ppf(0.995, 2)
PINNED = [[mean - 0.5, mean + 0.5] for mean in (0.0, 1.0, 2.0)]


@pytest.mark.parametrize(
    ("baseline", "fresh", "negligible", "allowed", "direction"),
    [
        # Mean 1 and standard deviation 1 of three values; t(.995, 2) = 9.925; three fresh ones: 9.925 · √(2/3) = 8.104.
        ([[0.0, 1.0, 2.0]], [9.0, 9.0, 9.1], 0.0, 8.1036, None),
        ([[0.0, 1.0, 2.0]], [9.2, 9.2, 9.2], 0.0, 8.1036, "up"),
        ([[0.0, 1.0, 2.0]], [-7.2, -7.2, -7.2], 0.0, 8.1036, "down"),
        ([[0.0, 1.0, 2.0]], [9.2, 9.2, 9.2], 8.3, 8.3, None),
        # Three campaigns show how campaigns vary. Means 0, 3 and 6, each sure to a hair: the band of one more of them.
        ([[-0.1, 0.1], [2.9, 3.1], [5.9, 6.1]], [20.0, 20.2], 0.0, T * 3 * math.sqrt(1 + 1 / 3), None),
        # Means 0, 1 and 2 of two values, variance 0.5 within a campaign: a single fresh value adds 0.5 · (1 − 1/2).
        (PINNED, [1.0, 1.0], 0.0, T * math.sqrt(4 / 3), None),
        (PINNED, [1.0], 0.0, T * math.sqrt(4 / 3 + 0.25), None),
    ],
)
def test_a_band_matches_a_calculation_by_hand(baseline, fresh, negligible, allowed, direction):
    found = shift(baseline, fresh, negligible)
    assert found.allowed == pytest.approx(allowed, rel=1e-4)
    assert (found.baseline, found.direction) == (pytest.approx(np.mean(baseline)), direction)


def test_equal_values_give_a_band_as_wide_as_their_rounding():
    """One of 200 images is half a point; s = 0.5/√12 of three equal seeds, and of means of three seeds 1/√3 of that."""
    by_hand = T * 0.5 / math.sqrt(12) * math.sqrt(1 / 2 + 1 / 3)
    found = shift([[90.0, 90.0, 90.0]], [90.5, 90.5], 0.0, unit=0.5)
    assert (found.allowed, found.direction) == (pytest.approx(by_hand), None)
    assert shift([[90.0, 90.0, 90.0]], [90.5, 90.5], 0.0).direction == "up"
    of_means = shift([[90.0] * 3] * 3, [90.5] * 3, 0.0, unit=0.5)
    assert of_means.allowed == pytest.approx(T * 0.5 / math.sqrt(12 * 3) * math.sqrt(1 + 1 / 3))


def test_too_few_values_give_no_band():
    assert shift([[0.0, 1.0]], [5.0], 0.0) is None
    assert shift([[0.0, 1.0, 2.0]], [], 0.0) is None
    assert shift([], [5.0], 0.0) is None


def test_false_alarms_are_as_rare_as_the_band_promises():
    """If only seeds vary, 1 % give a warning and almost none is confirmed. One pinned campaign can't show more."""
    found = rates(np.random.default_rng(0), num_seeds=5, num_pinned=1, between=0.0, moved=0.0, num_histories=4000)
    assert 0.005 < found["warned"] < 0.016
    assert found["confirmed"] < 0.005
    moved = rates(np.random.default_rng(0), num_seeds=5, num_pinned=1, between=0.0, moved=6.0, num_histories=500)
    assert moved["confirmed"] > 0.9
    rng = np.random.default_rng(0)  # and of one fresh seed beside six campaigns of five
    fewer = [shift(list(rng.standard_normal((6, 5))), list(rng.standard_normal(1)), 0.0) for _ in range(1000)]
    assert sum(found.direction is not None for found in fewer) <= 25


def test_a_band_from_launches_matches_a_calculation_by_hand():
    """Two launches of three variants; residuals ±0.01 and ∓0.005: 2 degrees of freedom, t(.995, 2) = 9.925."""
    pinned, weights = np.array([[0.0, 0.12, 0.1], [0.0, 0.08, 0.1]]), np.array([-1.0, 1.0, 0.0])
    residuals = pinned - pinned.mean(axis=0) - pinned.mean(axis=1, keepdims=True) + pinned.mean()
    spread = math.sqrt((residuals**2).sum() / 2)
    found = shift_of_speeds([pinned], np.array([[0.0, 0.4, 0.1]] * 4), weights, 0.0)
    assert found.allowed == pytest.approx(9.9248 * spread * math.sqrt(2) * math.sqrt(1 / 4 + 1 / 2), rel=1e-4)
    assert (found.mean, found.baseline) == (pytest.approx(0.4), pytest.approx(0.1))
    among = shift_of_speeds([pinned + np.array([0, slower, 0]) for slower in (0, 0.01, 0.02)], pinned, weights, 0.0)
    assert among.allowed == pytest.approx(T * 0.01 * math.sqrt(1 + 1 / 3))
    assert shift_of_speeds([pinned[:1]], pinned, weights, 0.0) is None


@pytest.mark.parametrize(
    ("baseline", "fresh", "direction"),
    [
        ((5, 5), (0, 5), "down"),  # Fisher's exact test gives 2 / C(10, 5) = 1/126
        ((0, 5), (5, 5), "up"),
        ((4, 4), (0, 4), None),  # 2 / C(8, 4) = 1/35
        ((5, 5), (5, 5), None),
    ],
)
def test_a_band_of_shares_matches_a_calculation_by_hand(baseline, fresh, direction):
    found = shift_of_shares(baseline, fresh)
    assert (found.mean, found.baseline) == (fresh[0] / fresh[1], baseline[0] / baseline[1])
    assert found.direction == direction


def test_shares_of_no_runs_give_no_band():
    assert shift_of_shares((0, 0), (1, 1)) is shift_of_shares((1, 1), (0, 0)) is None
