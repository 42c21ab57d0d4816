"""The interval of another day: its parts worked by hand, and how often it holds what such machines have."""

import math

import numpy as np
import pytest

from pipeline.statistics.sittings import (
    NOT_MEASURED,
    Sittings,
    SittingSpread,
    excess_variance,
    on_another_day,
    pooled_spread,
    reach,
    spread_of,
)
from pipeline.statistics.speeds import NO_RATIO, LogRatio, contrast

T_975_6, T_975_5 = 2.446912, 2.570582  # Student's t from a printed table
APART = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]  # variance 0.035


def test_the_spread_between_sittings_by_hand():
    """Variance 0.01 between three sittings, of which (0.0025 + 0.0016 + 0.0009) / 3 are their own."""
    assert excess_variance(Sittings([-0.1, 0.0, 0.1], [0.05, 0.04, 0.03])) == pytest.approx(0.01 - 0.005 / 3)
    assert excess_variance(Sittings([0.0, 0.0], [0.1, 0.1])) == pytest.approx(-0.01)


def test_six_sittings_speak_for_themselves():
    found = spread_of(Sittings(APART, [0.1] * 6), NOT_MEASURED)
    assert (found.spread, found.degrees_of_freedom, found.num_sittings) == (pytest.approx(math.sqrt(0.025)), 5, 6)
    alike = spread_of(Sittings([0.0] * 6, [0.1] * 6), NOT_MEASURED)
    assert (alike.spread, alike.degrees_of_freedom) == (0.0, 5)


@pytest.mark.parametrize(
    ("log_ratios", "least", "expected"),
    [
        ([], 0.02, 0.06),
        ([0.0], 0.02, 0.06),
        ([0.0, 0.01], 0.02, 0.06),  # two are too few for the pooled value to take the place of 0.06
        ([0.0, 0.01, 0.0], 0.02, 0.02),
        ([0.0, 0.01, 0.0], 0.06, 0.06),
        ([-0.1, 0.0, 0.1], 0.06, math.sqrt(0.01 - 0.0001)),
    ],
)
def test_fewer_sittings_can_only_add_to_what_others_say(log_ratios, least, expected):
    pooled = SittingSpread(spread=least, degrees_of_freedom=6, num_sittings=7)
    found = spread_of(Sittings(log_ratios, [0.01] * len(log_ratios)), pooled)
    assert found.spread == pytest.approx(expected)
    assert (found.degrees_of_freedom, found.num_sittings) == (6, len(log_ratios))


def test_contrasts_are_pooled_by_their_degrees_of_freedom():
    """Six sittings with 0.025 and five degrees of freedom; eight alike with −0.01 and seven: (0.125 − 0.07) / 12."""
    contrasts = [Sittings(APART, [0.1] * 6), Sittings([0.0] * 8, [0.1] * 8), Sittings([0.0, 9.0], [0.1, 0.1])]
    found = pooled_spread(contrasts)
    assert found.spread == pytest.approx(math.sqrt(0.055 / 12))
    assert found.degrees_of_freedom == 5
    assert pooled_spread(contrasts[2:]) == pooled_spread([]) == NOT_MEASURED


def test_the_interval_of_another_day_by_hand():
    """An error of 0.08 / √4 within, 0.03 from sitting to sitting: 0.05 together."""
    between = SittingSpread(spread=0.03, degrees_of_freedom=6, num_sittings=7)
    found = on_another_day(LogRatio(0.5, 0.08, 1000, 4), between)
    half = T_975_6 * 0.05
    assert found.ratio == pytest.approx(math.exp(0.5))
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)
    assert reach(SittingSpread(spread=0.1, degrees_of_freedom=5, num_sittings=6)) == pytest.approx(0.1 * T_975_5)


def test_it_is_never_narrower_than_the_sittings_own():
    """Of two launches of two variants, with one degree of freedom."""
    own = LogRatio(0.5, 0.1, 1, 2)
    found = on_another_day(own, NOT_MEASURED)
    assert (found.low, found.high) == pytest.approx((own.ratio.low, own.ratio.high))


def test_without_an_interval_of_its_own_a_sitting_has_none_for_other_days():
    assert on_another_day(None, NOT_MEASURED) == NO_RATIO
    assert on_another_day(LogRatio(0.5, 0.0, 0, 1), NOT_MEASURED).high is None


def simulated(rng, spread, num_sittings, num_studies) -> tuple[float, float]:
    """How often the interval of another day, and that of the sitting, hold the ratio that such machines have.

    Three launches of five variants, which vary by 2 % from launch to launch, and by `spread` from sitting to sitting.
    """

    def sitting() -> LogRatio:
        effects = rng.normal(0, 0.02, (3, 5)) + np.array([0, 0, 0, 0, rng.normal(0, spread)])
        return contrast(effects, [1, 0, 0, 0, -1])

    held = [0, 0]
    for _ in range(num_studies):
        earlier = [sitting() for _ in range(num_sittings)]
        found = Sittings([each.mean for each in earlier], [each.error for each in earlier])
        today = sitting()
        for place, ratio in enumerate((on_another_day(today, spread_of(found, NOT_MEASURED)), today.ratio)):
            held[place] += ratio.low <= 1 <= ratio.high
    return held[0] / num_studies, held[1] / num_studies


@pytest.mark.parametrize("num_sittings", [6, 10])
def test_it_holds_in_95_of_100_where_the_interval_of_a_sitting_does_not(num_sittings):
    another_day, own = simulated(np.random.default_rng(0), 0.05, num_sittings, 2000)
    assert 0.935 <= another_day <= 0.97
    assert own < 0.7


@pytest.mark.parametrize("num_sittings", [0, 3])
def test_with_few_sittings_it_holds_where_they_vary_no_more_than_the_seven_did(num_sittings):
    another_day, _ = simulated(np.random.default_rng(0), 0.067, num_sittings, 2000)
    assert another_day >= 0.95
