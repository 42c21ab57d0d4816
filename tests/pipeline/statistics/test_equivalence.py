"""Variants beside each other, paired or not: by hand, and held against SciPy, statsmodels and simulation."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from pipeline.statistics.equivalence import (
    Design,
    adjust,
    beyond_power,
    num_seeds_needed,
    outcome,
    p_values,
    paired,
    power,
    unpaired,
)
from pipeline.statistics.intervals import Estimate

T_975_2 = 4.302653  # Student's t with 2 degrees of freedom, from a printed table
LOSSES = Design(is_one_sided=True)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([-0.1, 0.0, 0.1], "equivalent"),
        ([0.49, 0.5, 0.51], "equivalent but shifted"),
        ([-5.0, -5.1, -4.9], "different"),
        ([-2.0, 0.0, 2.0], "inconclusive"),
    ],
)
def test_the_four_outcomes(differences, expected):
    found = p_values(paired(differences), 1.0)
    assert outcome(found.within, found.differs) == expected


def test_tost_by_hand():
    """Mean 0, standard error 1/√3, margin 2: t = 2√3, and Student's t with 2 degrees of freedom has a closed form."""
    t = 2 * math.sqrt(3)
    expected = 0.5 - t / (2 * math.sqrt(2 + t * t))
    assert p_values(paired([-1.0, 0.0, 1.0]), 2.0).within == pytest.approx(expected, abs=1e-9)


def test_difference_by_hand():
    found = paired([-1.0, 0.0, 1.0])
    error = 1 / math.sqrt(3)
    assert (found.mean, found.beyond(0.0)) == (0.0, 1.0)
    assert found.estimate.low == pytest.approx(-T_975_2 * error, rel=1e-6)


def test_a_difference_that_happens_to_repeat_is_no_certainty_and_none_at_all_is():
    """Accuracies come in steps of one example."""
    alike = paired([0.0, 0.0, 0.0])
    assert (p_values(alike, 1.0), alike.estimate) == ((0.0, 1.0, 1.0), Estimate(0.0, 0.0, 0.0))
    for differences in ([0.01, 0.01, 0.01], [0.1 + 0.2, 0.3, 0.3], [5.0, 5.0, 5.0], [5.0, 6.0]):
        by_chance = paired(differences)
        assert by_chance.estimate == Estimate(pytest.approx(np.mean(differences)))
        assert p_values(by_chance, 1.0) == (None, None, None)


@pytest.mark.parametrize("is_paired", [True, False])
def test_random_samples_agree_with_scipy_and_statsmodels(is_paired):
    """Unless they are paired, they are of unequal numbers and spreads."""
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


def test_several_candidates_are_adjusted_as_statsmodels_does():
    rng = np.random.default_rng(2)
    baseline = rng.normal(90, 0.5, 6)
    rows = [p_values(unpaired(baseline, rng.normal(90, 0.5, 5)), 1.0) for _ in range(4)]
    adjusted = np.array(adjust(rows, ["one"] * 4))
    for column, values in enumerate(zip(*rows, strict=True)):
        assert adjusted[:, column] == pytest.approx(multipletests(values, method="holm")[1])


def test_too_few_or_equal_runs_decide_only_what_they_can():
    same, other, few = np.full(3, 90.0), np.full(3, 91.0), np.array([90.0, 91.0])
    assert p_values(unpaired(same, same), 0.5) == (0.0, 1.0, 1.0)
    for pair in ((same, other), (same, few), (few, same), (few, few[:0])):
        found = unpaired(*pair)
        assert p_values(found, 0.5) == (None, None, None)
    assert unpaired(same, few).mean == 0.5
    assert math.isnan(unpaired(same, few[:0]).mean)


def test_a_ratio_is_the_exponent_of_its_logarithms():
    found = unpaired(np.log([1.0, 1.1, 0.9]), np.log([2.0, 2.2, 1.8, 2.1])).estimate.mapped(math.exp)
    test = stats.ttest_ind(np.log([2.0, 2.2, 1.8, 2.1]), np.log([1.0, 1.1, 0.9]), equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(test.confidence_interval(0.95))))
    assert unpaired(np.log([1.0]), np.log([2.0])).estimate.mapped(math.exp) == Estimate(pytest.approx(2.0))


@pytest.mark.parametrize(("spread", "error"), [(0.1, 0.025), (50.0, 0.05)])
def test_a_difference_at_the_margin_is_rarely_called_beyond(spread, error):
    """Half of 5 % where the spread is small; 5 % where a mean may lie beyond either end of the margin."""
    values = np.random.default_rng(4).normal(1.0, spread, (4000, 5))
    found = np.mean([p_values(paired(of_study), 1.0).beyond < 0.05 for of_study in values])
    assert found == pytest.approx(error, abs=0.008)


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
    assert power(1.0, margin, num_seeds, difference) == pytest.approx(expected, abs=1e-9)


def test_power_to_show_a_difference_beyond_the_margin_agrees_with_simulation():
    values = np.random.default_rng(5).normal(-2.0, 0.9, (20_000, 6))
    error = values.std(axis=1, ddof=1) / math.sqrt(6)
    shown = ((-1.0 - values.mean(axis=1)) / error > stats.t.isf(0.05 / 4 / 2, 5)).mean()
    assert beyond_power(0.9, 1.0, 6, -2.0, num_candidates=4) == pytest.approx(shown, abs=0.01)


def test_the_planning_table():
    """Runs of spread 0.5 pp differ by 0.5 √2: the rough guide says 6 seeds for ±1 pp and 19 for ±0.5."""
    spread = 0.5 * math.sqrt(2)
    assert num_seeds_needed(spread, 1.0) == 6
    assert num_seeds_needed(spread, 0.5) == 19
    assert power(spread, 1.0, 5) < 0.8 <= power(spread, 1.0, 6)
    assert num_seeds_needed(1e-6, 1.0) == 3
    assert num_seeds_needed(0.0, 1.0) == 3
    assert num_seeds_needed(50.0, 1.0) is None


def test_several_candidates_take_more_seeds():
    spread = 0.5 * math.sqrt(2)
    assert num_seeds_needed(spread, 1.0, num_candidates=5) > 6
    for num_seeds in (3, 10):  # at the margin, the level divided by their number
        assert power(0.1, 1.0, num_seeds, 1.0, num_candidates=5) == pytest.approx(0.01, abs=1e-6)


def test_seeds_are_planned_for_the_mean_that_was_found():
    """Within the margin equivalence is planned for, beyond it that; close to it no number of seeds would tell."""
    seeds = [num_seeds_needed(0.35, 1.0, 4, difference) for difference in (0.0, 0.5, 0.8, 1.2, 2.0)]
    assert seeds[0] < seeds[1] < seeds[2]
    assert seeds[3] > seeds[4]
    assert power(0.35, 1.0, seeds[2], 0.8, 4) >= 0.8 > power(0.35, 1.0, seeds[2] - 1, 0.8, 4)
    beyond = [beyond_power(0.35, 1.0, number, 1.2, 4) for number in (seeds[3] - 1, seeds[3])]
    assert beyond[0] < 0.8 <= beyond[1]
    assert num_seeds_needed(0.35, 1.0, 4, -0.8) == seeds[2]
    assert num_seeds_needed(0.35, 1.0, 4, 1.0) is None
    assert num_seeds_needed(0.35, 1.0, 4, 1.01) is None
    assert num_seeds_needed(0.0, 1.0, 1, 1.0) is None


@pytest.mark.parametrize("is_one_sided", [False, True])
@pytest.mark.parametrize("shift", [0.0, -0.3])
def test_as_many_seeds_as_are_needed_decide_in_80_percent(is_one_sided, shift):
    rng, spreads, margin = np.random.default_rng(4), np.array([0.5, 0.8]), 1.0
    per_seed = (spreads**2).sum() ** 2 / (spreads**4).sum()
    design = Design(is_one_sided, per_seed)
    num_seeds = num_seeds_needed(float(np.sqrt((spreads**2).sum())), margin, 1, shift, design)
    shown = sum(
        p_values(
            unpaired(*(rng.normal(mean, s, num_seeds) for mean, s in zip((0, shift), spreads, strict=True))),
            margin,
            is_one_sided,
        ).within
        < 0.05
        for _ in range(2000)
    )
    assert 0.77 <= shown / 2000 <= 0.88


def test_losses_alone_take_fewer_seeds_and_a_gain_none_more():
    assert num_seeds_needed(1.0, 0.5, design=LOSSES) < num_seeds_needed(1.0, 0.5)
    assert num_seeds_needed(1.0, 0.5, difference=5.0, design=LOSSES) == 3
    assert num_seeds_needed(1.0, 0.5, difference=-0.5, design=LOSSES) is None
    critical = stats.t.ppf(0.95, 4)
    expected = stats.nct.sf(critical, 4, 0.5 * math.sqrt(5))
    assert power(1.0, 0.5, 5, design=LOSSES) == pytest.approx(expected)
