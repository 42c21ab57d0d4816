"""Variants beside each other, paired or not, held against SciPy, statsmodels and simulation."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttost_ind, ttost_paired

from pipeline.statistics.equivalence import (
    Design,
    adjust,
    difference,
    equivalence,
    num_seeds_needed,
    p_values,
    paired,
    power,
    ratio,
    unpaired,
)

LOSSES = Design(is_one_sided=True)


def two_samples(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return values of two variants, of unequal numbers and spreads."""
    (baseline, candidate), spreads = rng.integers(3, 31, 2), rng.uniform(0.05, 2.0, 2)
    return rng.normal(90, spreads[0], baseline), rng.normal(90 + rng.normal(0, 0.7), spreads[1], candidate)


def test_random_tables_agree_with_scipy_and_statsmodels():
    rng = np.random.default_rng(0)
    for _ in range(300):
        baseline, candidate = two_samples(rng)
        found, test = unpaired(baseline, candidate), stats.ttest_ind(candidate, baseline, equal_var=False)
        interval, margin = difference(found), rng.uniform(0.2, 2)
        assert (found.freedom, interval.p_value) == pytest.approx((test.df, test.pvalue), rel=1e-8)
        assert (interval.low95, interval.high95) == pytest.approx(tuple(test.confidence_interval(0.95)), rel=1e-8)
        assert (interval.low90, interval.high90) == pytest.approx(tuple(test.confidence_interval(0.90)), rel=1e-8)
        means = CompareMeans(DescrStatsW(candidate), DescrStatsW(baseline))
        assert interval.low95 == pytest.approx(means.tconfint_diff(usevar="unequal")[0], rel=1e-8)
        within = ttost_ind(candidate, baseline, -margin, margin, usevar="unequal")[0]
        assert p_values(found, margin).within == pytest.approx(within, rel=1e-7, abs=1e-12)
        no_worse = stats.ttest_ind(candidate + margin, baseline, equal_var=False, alternative="greater").pvalue
        assert p_values(found, margin, is_one_sided=True).within == pytest.approx(no_worse, rel=1e-7, abs=1e-12)


def test_random_pairs_agree_with_scipy_and_statsmodels():
    rng = np.random.default_rng(1)
    for _ in range(300):
        num_seeds, margin = int(rng.integers(3, 31)), rng.uniform(0.2, 2)
        baseline, candidate = rng.normal(90, 1, num_seeds), rng.normal(90 + rng.normal(0, 0.7), 1, num_seeds)
        values = paired(candidate - baseline)
        found, test = difference(values), stats.ttest_rel(candidate, baseline)
        assert found.p_value == pytest.approx(test.pvalue, rel=1e-8)
        assert (found.low95, found.high95) == pytest.approx(tuple(test.confidence_interval(0.95)), rel=1e-8)
        assert (found.low90, found.high90) == pytest.approx(tuple(test.confidence_interval(0.90)), rel=1e-8)
        within = ttost_paired(candidate, baseline, -margin, margin)[0]
        assert p_values(values, margin).within == pytest.approx(within, rel=1e-7, abs=1e-12)
        no_worse = stats.ttest_1samp(candidate - baseline, -margin, alternative="greater").pvalue
        assert p_values(values, margin, is_one_sided=True).within == pytest.approx(no_worse, rel=1e-7, abs=1e-12)


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
        assert equivalence(found, 0.5).outcome == "inconclusive"
    assert difference(unpaired(same, few)).mean == 0.5
    assert difference(unpaired(same, few[:0])).mean is None


def test_a_ratio_is_the_exponent_of_its_logarithms():
    found = ratio(unpaired(np.log([1.0, 1.1, 0.9]), np.log([2.0, 2.2, 1.8, 2.1])))
    test = stats.ttest_ind(np.log([2.0, 2.2, 1.8, 2.1]), np.log([1.0, 1.1, 0.9]), equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(test.confidence_interval(0.95))))
    assert ratio(unpaired(np.log([1.0]), np.log([2.0]))).ratio == pytest.approx(2.0)


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


def test_the_detectable_margin_of_unequal_numbers_is_shown_in_80_percent():
    rng = np.random.default_rng(5)
    baseline, candidate = rng.normal(0, 0.5, 4), rng.normal(0, 0.8, 9)
    found = unpaired(baseline, candidate)
    test = equivalence(found, 1.0)
    scales = baseline.std(ddof=1), candidate.std(ddof=1)
    shown = sum(
        p_values(unpaired(rng.normal(0, scales[0], 4), rng.normal(0, scales[1], 9)), test.detectable_margin_pp).within
        < 0.05
        for _ in range(2000)
    )
    assert shown / 2000 == pytest.approx(0.8, abs=0.04)


def test_losses_alone_take_fewer_seeds_and_a_gain_none_more():
    assert num_seeds_needed(1.0, 0.5, design=LOSSES) < num_seeds_needed(1.0, 0.5)
    assert num_seeds_needed(1.0, 0.5, difference=5.0, design=LOSSES) == 3
    assert num_seeds_needed(1.0, 0.5, difference=-0.5, design=LOSSES) is None
    critical = stats.t.ppf(0.95, 4)
    expected = stats.nct.sf(critical, 4, 0.5 * math.sqrt(5))
    assert power(1.0, 0.5, 5, design=LOSSES) == pytest.approx(expected)


def test_a_gain_is_no_difference_where_losses_alone_count():
    gain = p_values(paired([4.9, 5.0, 5.1]), 1.0, is_one_sided=True)
    assert gain.within < 0.001
    assert (gain.differs, gain.beyond) == (1.0, 1.0)
    assert p_values(paired([-4.9, -5.0, -5.1]), 1.0, is_one_sided=True).beyond < 0.001
