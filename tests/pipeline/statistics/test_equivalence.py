"""Comparisons of variants, paired or not: by hand, and checked against SciPy, statsmodels and simulation."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from pipeline.statistics.equivalence import (
    loss,
    num_seeds_needed,
    outcome,
    p_values,
    paired,
    unpaired,
)
from pipeline.statistics.intervals import Estimate

T_975_2 = 4.302653  # Student's t with 2 degrees of freedom, from a printed table


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([-0.1, 0.0, 0.1], "equivalent"),
        ([0.49, 0.5, 0.51], "equivalent but shifted"),
        ([-5.0, -5.1, -4.9], "different"),
        ([-2.0, 0.0, 2.0], "inconclusive"),
    ],
)
def test_p_values_decide_between_four_outcomes(differences, expected):
    found = p_values(paired(differences), 1.0)
    assert outcome(found.within, found.differs) == expected


def test_tost_matches_a_calculation_by_hand():
    """Mean 0, standard error 1/√3, margin 2: t = 2√3, and Student's t with 2 degrees of freedom has a closed form."""
    t = 2 * math.sqrt(3)
    expected = 0.5 - t / (2 * math.sqrt(2 + t * t))
    assert p_values(paired([-1.0, 0.0, 1.0]), 2.0).within == pytest.approx(expected, abs=1e-9)


def test_a_difference_and_its_interval_match_a_calculation_by_hand():
    found = paired([-1.0, 0.0, 1.0])
    error = 1 / math.sqrt(3)
    assert (found.mean, found.beyond(0.0)) == (0.0, 1.0)
    assert found.estimate.low == pytest.approx(-T_975_2 * error, rel=1e-6)


def test_a_repeated_difference_gives_no_p_values_unless_it_is_zero():
    """Accuracies come in steps of one example."""
    alike = paired([0.0, 0.0, 0.0])
    assert (p_values(alike, 1.0), alike.estimate) == ((0.0, 1.0, 1.0), Estimate(0.0, 0.0, 0.0))
    for differences in ([0.01, 0.01, 0.01], [0.1 + 0.2, 0.3, 0.3], [5.0, 5.0, 5.0], [5.0, 6.0]):
        by_chance = paired(differences)
        assert by_chance.estimate == Estimate(pytest.approx(np.mean(differences)))
        assert p_values(by_chance, 1.0) == (None, None, None)


@pytest.mark.parametrize("is_paired", [True, False])
def test_results_for_random_samples_agree_with_scipy_and_statsmodels(is_paired):
    """Unpaired samples have unequal numbers and spreads."""
    rng, t_test, tost = np.random.default_rng(0), stats.ttest_rel, ttost_paired
    if not is_paired:
        t_test, tost = partial(stats.ttest_ind, equal_var=False), partial(ttost_ind, usevar="unequal")
    for _ in range(60):
        (num_seeds, others), spreads = rng.integers(3, 31, 2), rng.uniform(0.05, 2.0, 2)
        baseline = rng.normal(90, spreads[0], num_seeds)
        candidate = rng.normal(90 + rng.normal(0, 0.7), spreads[1], num_seeds if is_paired else others)
        found = paired(candidate - baseline) if is_paired else unpaired(baseline, candidate)
        test, margin = t_test(candidate, baseline), rng.uniform(0.2, 2)
        assert (found.freedom, found.beyond(0.0)) == pytest.approx((test.df, test.pvalue), rel=1e-8)
        ends = (found.estimate.low, found.estimate.high)
        assert ends == pytest.approx(tuple(test.confidence_interval(0.95)), rel=1e-8)
        within = tost(candidate, baseline, -margin, margin)[0]
        assert p_values(found, margin).within == pytest.approx(within, rel=1e-7, abs=1e-12)
        no_worse = t_test(candidate + margin, baseline, alternative="greater").pvalue
        assert p_values(found, margin, is_one_sided=True).within == pytest.approx(no_worse, rel=1e-7, abs=1e-12)


def test_too_few_or_constant_runs_give_no_p_values_unless_all_are_equal():
    same, other, few = np.full(3, 90.0), np.full(3, 91.0), np.array([90.0, 91.0])
    assert p_values(unpaired(same, same), 0.5) == (0.0, 1.0, 1.0)
    for pair in ((same, other), (same, few), (few, same), (few, few[:0])):
        found = unpaired(*pair)
        assert p_values(found, 0.5) == (None, None, None)
    assert unpaired(same, few).mean == 0.5
    assert math.isnan(unpaired(same, few[:0]).mean)


def test_the_interval_of_a_ratio_is_the_exponential_of_that_of_its_logarithm():
    found = unpaired(np.log([1.0, 1.1, 0.9]), np.log([2.0, 2.2, 1.8, 2.1])).estimate.mapped(math.exp)
    test = stats.ttest_ind(np.log([2.0, 2.2, 1.8, 2.1]), np.log([1.0, 1.1, 0.9]), equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(test.confidence_interval(0.95))))
    assert unpaired(np.log([1.0]), np.log([2.0])).estimate.mapped(math.exp) == Estimate(pytest.approx(2.0))


@pytest.mark.parametrize(("spread", "error"), [(0.1, 0.025), (50.0, 0.05)])
def test_a_difference_at_the_margin_is_rarely_called_beyond_it(spread, error):
    """Half of 5 % where the spread is small; 5 % where a mean may lie beyond either end of the margin."""
    values = np.random.default_rng(4).normal(1.0, spread, (4000, 5))
    found = np.mean([p_values(paired(of_study), 1.0).beyond < 0.05 for of_study in values])
    assert found == pytest.approx(error, abs=0.008)


@pytest.mark.parametrize("num_candidates", [1, 2, 3])
def test_the_bound_on_a_loss_matches_a_one_sided_t_test_and_its_p_value(num_candidates):
    rng, margin = np.random.default_rng(6), 1.0
    for _ in range(60):
        differences = rng.normal(rng.normal(-0.3, 0.6), rng.uniform(0.1, 1.5), rng.integers(3, 20))
        found = loss(paired(differences), margin, num_candidates)
        test = stats.ttest_1samp(differences, -margin, alternative="greater")
        bound = test.confidence_interval(1 - 0.05 / num_candidates).low
        assert found.most == pytest.approx(max(0.0, -bound), rel=1e-8)
        assert found.p_within_margin == pytest.approx(min(1.0, num_candidates * test.pvalue), rel=1e-8)
        assert (found.most < margin) == (found.p_within_margin < 0.05)
    assert loss(paired(differences), margin, 2).most == pytest.approx(max(0.0, -paired(differences).estimate.low))


@pytest.mark.parametrize("is_one_sided", [True, False])
@pytest.mark.parametrize("num_candidates", [1, 2])
@pytest.mark.parametrize(("spread", "margin"), [(0.7, 1.0), (0.2, 0.2), (1.4, 1.0), (0.5, 1.0)])
def test_the_suggested_number_of_seeds_has_a_power_of_90_percent(spread, margin, num_candidates, is_one_sided):
    """The exact power comes from the noncentral t distribution. The textbook's number may be short by one seed."""
    num_seeds = num_seeds_needed(spread, margin, num_candidates, is_one_sided)
    assert num_seeds

    def power(number: int) -> float:
        critical = stats.t.ppf(1 - 0.05 / num_candidates, number - 1)
        misses = stats.nct.cdf(critical, number - 1, margin * math.sqrt(number) / spread)
        return 1 - (misses if is_one_sided else 2 * misses)

    assert power(num_seeds + 1) >= 0.9
    assert num_seeds <= 4 or power(num_seeds - 2) < 0.9


def test_an_impractical_number_of_seeds_is_not_suggested():
    assert num_seeds_needed(50.0, 1.0, 1, is_one_sided=True) is None
    assert num_seeds_needed(1e-6, 1.0, 1, is_one_sided=True) == 3
