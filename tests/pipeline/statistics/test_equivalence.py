import math

import numpy as np
import pytest
from scipy import integrate, stats

from pipeline.statistics import equivalence
from pipeline.statistics.equivalence import difference, paired


def outcome(differences, margin) -> str:
    return equivalence.outcome(
        equivalence.equivalence(paired(differences), margin).p_value, difference(paired(differences)).p_value
    )


@pytest.mark.parametrize(
    ("differences", "margin", "expected"),
    [
        ([-0.1, 0.0, 0.1], 1.0, "equivalent"),
        ([0.49, 0.5, 0.51], 1.0, "equivalent but shifted"),
        ([-5.0, -5.1, -4.9], 1.0, "different"),
        ([-2.0, 0.0, 2.0], 1.0, "inconclusive"),
        ([0.0, 0.0, 0.0], 1.0, "equivalent"),
        ([0.5, 0.5, 0.5], 1.0, "inconclusive"),
        ([0.0, 0.0], 1.0, "inconclusive"),
    ],
)
def test_the_four_outcomes(differences, margin, expected):
    assert outcome(differences, margin) == expected


def test_tost_by_hand():
    """Mean 0, standard error 1/√3, margin 2: t = 2√3, and Student's t with 2 degrees of freedom has a closed form."""
    t = 2 * math.sqrt(3)
    expected = 0.5 - t / (2 * math.sqrt(2 + t * t))
    assert equivalence.equivalence(paired([-1.0, 0.0, 1.0]), 2.0).p_value == pytest.approx(expected, abs=1e-9)


def test_tost_at_5_percent_is_the_90_percent_interval_within_the_margin():
    rng = np.random.default_rng(2)
    for _ in range(200):
        values = rng.normal(rng.normal(0, 0.5), 0.6, 5)
        interval = difference(paired(values))
        within = interval.low90 > -1.0 and interval.high90 < 1.0
        assert (equivalence.equivalence(paired(values), 1.0).p_value < 0.05) == within


@pytest.mark.parametrize("num_seeds", [10, 20, 40])
def test_power_agrees_with_the_noncentral_t_where_both_tests_cannot_fail_at_once(num_seeds):
    """Then 1 − power is the sum of the two tests' chances to fail, each a noncentral t."""
    margin, difference, error = 6.0, 0.4, 1 / math.sqrt(num_seeds)
    critical = stats.t.ppf(0.95, num_seeds - 1)
    fail = sum(stats.nct.cdf(critical, num_seeds - 1, (margin + sign * difference) / error / 1.0) for sign in (-1, 1))
    assert equivalence.power(1.0, margin, num_seeds, difference) == pytest.approx(1 - fail, abs=1e-9)


@pytest.mark.parametrize(("num_seeds", "margin", "difference"), [(3, 2.0, 0.0), (5, 1.0, 0.5), (19, 0.5, 0.0)])
def test_power_agrees_with_an_integral_over_the_mean(num_seeds, margin, difference):
    """The other order: given the mean, both tests reject when s is small enough, which chi-squared tells."""
    error, freedom = 1 / math.sqrt(num_seeds), num_seeds - 1
    critical = stats.t.ppf(0.95, freedom)

    def integrand(mean):
        largest = (margin - abs(mean)) * math.sqrt(num_seeds) / critical
        return stats.norm.pdf(mean, difference, error) * stats.chi2.cdf(freedom * largest**2, freedom)

    expected = sum(
        integrate.quad(integrand, *limits, epsabs=1e-13, epsrel=1e-12)[0] for limits in ((-margin, 0), (0, margin))
    )
    assert equivalence.power(1.0, margin, num_seeds, difference) == pytest.approx(expected, abs=1e-9)


def test_the_level_is_kept_at_the_margin():
    for num_seeds in (3, 5, 10, 100):
        assert equivalence.power(0.5, 1.0, num_seeds, difference=1.0) <= 0.05 + 1e-9


def test_the_planning_table():
    """Runs of spread 0.5 pp differ by 0.5 √2: the rough guide says 6 seeds for ±1 pp and 19 for ±0.5."""
    spread = 0.5 * math.sqrt(2)
    assert equivalence.num_seeds_needed(spread, 1.0) == 6
    assert equivalence.num_seeds_needed(spread, 0.5) == 19
    assert equivalence.power(spread, 1.0, 5) < 0.8 <= equivalence.power(spread, 1.0, 6)
    assert equivalence.num_seeds_needed(1e-6, 1.0) == 3
    assert equivalence.num_seeds_needed(0.0, 1.0) == 3
    assert equivalence.num_seeds_needed(50.0, 1.0) is None


def test_several_candidates_take_more_seeds():
    spread = 0.5 * math.sqrt(2)
    assert equivalence.num_seeds_needed(spread, 1.0, num_candidates=5) > 6
    assert equivalence.detectable_margin(1.0, 5, num_candidates=5) > equivalence.detectable_margin(1.0, 5)
    for num_seeds in (3, 10):  # at the margin, the level divided by their number
        assert equivalence.power(0.1, 1.0, num_seeds, 1.0, num_candidates=5) == pytest.approx(0.01, abs=1e-6)


def test_the_detectable_margin_is_the_one_with_80_percent_power():
    for num_seeds in (3, 5, 10, 50):
        margin = equivalence.detectable_margin(2.0, num_seeds)
        assert equivalence.power(2.0, margin, num_seeds) == pytest.approx(0.8, abs=1e-9)
    result = equivalence.equivalence(paired([-1.0, 0.0, 1.0]), 1.0)
    assert (result.spread_pp, result.detectable_margin_pp) == (1.0, equivalence.detectable_margin(1.0, 3))
    assert result.num_seeds_needed == equivalence.num_seeds_needed(1.0, 1.0)


def test_beyond_the_margin_is_the_95_percent_interval_wholly_outside():
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(300):
        values = rng.normal(rng.normal(0, 2), 0.6, 5)
        interval = difference(paired(values))
        outside = interval.low95 > 1.0 or interval.high95 < -1.0
        p_value = equivalence.p_values(paired(values), 1.0).beyond
        assert (p_value < 0.05) == outside
        assert p_value >= interval.p_value  # what lies beyond the margin is told from zero as well
        seen.add(outside)
    assert seen == {True, False}


def test_differences_without_a_spread_lie_beyond_no_margin():
    assert equivalence.p_values(paired(np.zeros(3)), 1.0).beyond == 1.0
    assert equivalence.p_values(paired(np.full(3, 5.0)), 1.0).beyond is None
    assert equivalence.p_values(paired(np.array([5.0, 6.0])), 1.0).beyond is None


@pytest.mark.parametrize(("spread", "error"), [(0.1, 0.025), (50.0, 0.05)])
def test_a_difference_at_the_margin_is_rarely_called_beyond(spread, error):
    """Half of 5 % where the spread is small; 5 % where a mean may lie beyond either end of the margin."""
    values = np.random.default_rng(4).normal(1.0, spread, (4000, 5))
    found = np.mean([equivalence.p_values(paired(of_study), 1.0).beyond < 0.05 for of_study in values])
    assert found == pytest.approx(error, abs=0.008)


def test_more_seeds_never_turn_a_refutation_into_its_opposite():
    """Mean −0.80, spread 0.35, one of four candidates: 5 seeds tell it from zero, 20 put it within ±1 pp as well."""

    def found(num_seeds: int) -> tuple[str, bool]:
        values = stats.norm.ppf((np.arange(num_seeds) + 0.5) / num_seeds)
        values = -0.8 + 0.35 * values / values.std(ddof=1)
        adjusted, *_ = equivalence.adjust(4 * [equivalence.p_values(paired(values), 1.0)], 4 * ["one family"])
        result = equivalence.equivalence(paired(values), 1.0, 4, adjusted)
        return result.outcome, result.is_beyond

    assert found(5) == ("different", False)
    assert found(20) == ("equivalent but shifted", False)


def test_power_to_show_a_difference_beyond_the_margin_agrees_with_simulation():
    values = np.random.default_rng(5).normal(-2.0, 0.9, (20_000, 6))
    error = values.std(axis=1, ddof=1) / math.sqrt(6)
    shown = ((-1.0 - values.mean(axis=1)) / error > stats.t.isf(0.05 / 4 / 2, 5)).mean()
    assert equivalence.beyond_power(0.9, 1.0, 6, -2.0, num_candidates=4) == pytest.approx(shown, abs=0.01)


def test_seeds_are_planned_for_the_mean_that_was_found():
    """Within the margin equivalence is planned for, beyond it that; close to it no number of seeds would tell."""
    seeds = [equivalence.num_seeds_needed(0.35, 1.0, 4, difference) for difference in (0.0, 0.5, 0.8, 1.2, 2.0)]
    assert seeds[0] < seeds[1] < seeds[2]
    assert seeds[3] > seeds[4]
    assert equivalence.power(0.35, 1.0, seeds[2], 0.8, 4) >= 0.8 > equivalence.power(0.35, 1.0, seeds[2] - 1, 0.8, 4)
    beyond = [equivalence.beyond_power(0.35, 1.0, number, 1.2, 4) for number in (seeds[3] - 1, seeds[3])]
    assert beyond[0] < 0.8 <= beyond[1]
    assert equivalence.num_seeds_needed(0.35, 1.0, 4, -0.8) == seeds[2]
    assert equivalence.num_seeds_needed(0.35, 1.0, 4, 1.0) is None
    assert equivalence.num_seeds_needed(0.35, 1.0, 4, 1.01) is None
    assert equivalence.num_seeds_needed(0.0, 1.0, 1, 1.0) is None
