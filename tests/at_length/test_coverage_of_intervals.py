"""Coverage of intervals and error rates of tests in simulated studies, as docs/decisions/intervals.md gives them."""

import numpy as np
import pytest
from bench import interval_coverage as intervals


@pytest.mark.parametrize("num_launches", intervals.NUM_LAUNCHES)
@pytest.mark.parametrize("stalled", [0.0, 0.1])
def test_speed_intervals_have_the_coverage_they_claim(num_launches, stalled):
    held = intervals.speed(np.random.default_rng(0), intervals.World(stalled=stalled), num_launches, 1000)
    for name in ("the baseline over itself", "speedup"):
        assert 0.93 <= held[name] <= 0.975, name


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.04])
def test_intervals_keep_their_coverage_when_a_study_ends_early(spread):
    held = intervals.ending_early(np.random.default_rng(0), spread, 3000)
    assert min(held["speedup"], held["the baseline over itself"]) >= 0.93
    assert held["launches"] < 7  # it does end early


@pytest.mark.parametrize("is_paired", [True, False])
@pytest.mark.parametrize("num_seeds", intervals.NUM_SEEDS)
def test_accuracy_intervals_and_equivalence_tests_have_the_error_rates_they_claim(num_seeds, is_paired):
    shares = intervals.accuracy(np.random.default_rng(1), num_seeds, 3000, is_paired)
    assert 0.93 <= shares["difference, 95 %"] <= 0.97
    errors = [share for name, share in shares.items() if name.startswith("false")]
    assert len(errors) == 4
    assert max(errors) <= 0.05 + 3 * (0.05 * 0.95 / 3000) ** 0.5


@pytest.mark.parametrize("true_loss_pp", [0.5, 1.0])
@pytest.mark.parametrize("num_seeds", intervals.NUM_SEEDS)
def test_bounds_on_a_loss_are_rarely_wrong_and_policies_that_lose_the_margin_rarely_recommended(
    num_seeds, true_loss_pp
):
    shares = intervals.losses(np.random.default_rng(3), num_seeds, 3000, true_loss_pp)
    at_most = 0.05 + 3 * (0.05 * 0.95 / 3000) ** 0.5
    assert shares["wrong bound"] <= at_most
    assert true_loss_pp < intervals.MARGIN_PP or shares["loses less than the margin"] <= at_most
    assert shares["shown to be faster, at equal speeds"] <= at_most


def test_three_seeds_against_thirty_give_slightly_low_coverage():
    shares = intervals.accuracy(np.random.default_rng(1), 3, 3000, is_paired=False, num_baseline_seeds=30)
    assert 0.91 <= shares["difference, 95 %"] <= 0.95


def test_adding_seeds_to_an_inconclusive_comparison_raises_errors_as_documented():
    at_the_margin, within = (intervals.going_on(np.random.default_rng(2), 500, true_pp) for true_pp in (1.0, 0.5))
    assert 0.05 < at_the_margin["equivalent"] <= 0.14  # two looks
    assert within["difference, 95 %"] >= 0.92
