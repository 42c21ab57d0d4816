"""Test whether two variants, paired by seed or not, differ by less than a margin or by more than the margin.

Also bound how much accuracy a variant may lose, and compute how many seeds a decision needs.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.statistics.intervals import MIN_SEEDS, Estimate, has_spread, holm, standard_deviation

SIGNIFICANCE_LEVEL = 0.05
POWER = 0.9
MAX_SEEDS = 1000  # no larger number of seeds is suggested
# A margin wider than this share of the baseline's accuracy means little: near chance, all variants are equivalent.
MAX_MARGIN_SHARE = 0.1
EquivalenceOutcome = Literal["equivalent", "different", "equivalent but shifted", "inconclusive"]


class Contrast(NamedTuple):
    """Hold a mean difference (candidate − baseline), its standard error and degrees of freedom. NaN means unknown.

    `spread` is the standard deviation of the difference between one run of each variant. `mean`, `spread` and `error`
    have the unit of the results. Variants with equal results have an error of 0.
    """

    mean: float = math.nan
    spread: float = math.nan
    error: float = math.nan
    freedom: float = math.nan

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.error)

    @property
    def estimate(self) -> Estimate:
        """Return the mean difference with its 95 % t-interval. Unknown numbers are None."""
        if not self.is_known:
            return Estimate(None if math.isnan(self.mean) else self.mean)
        half = self.error * float(scipy.special.stdtrit(self.freedom, 0.975)) if self.error else 0.0
        return Estimate(self.mean, self.mean - half, self.mean + half)

    def above(self, bound: float) -> float:
        """Return the p-value of the one-sided t-test for a difference above `bound`."""
        if not self.error:
            return float(self.mean <= bound)
        return float(scipy.special.stdtr(self.freedom, (bound - self.mean) / self.error))

    def below(self, bound: float) -> float:
        return self._replace(mean=-self.mean).above(-bound)

    def beyond(self, bound: float) -> float:
        """Return the p-value of the test for a difference below −bound or above +bound.

        This is twice the p-value of the one-sided t-test on the side of the mean. The p-value is below 5 % if the whole
        95 % interval lies beyond the bound. Doubling allows for errors in both directions: the test keeps its level
        whatever the spread, and finds a difference only if the test of "no difference" also finds one.
        """
        return min(1.0, 2 * self._replace(mean=abs(self.mean)).above(bound))


def paired(differences: ArrayLike, unit: float = 0.0) -> Contrast:
    """Return the contrast of paired differences (num_seeds,) of results that come in steps of `unit`.

    With fewer than `MIN_SEEDS` differences, the error is unknown. If results are not rounded (`unit` is 0) and all
    differences are equal, the error is 0 for differences of zero, and unknown for any other difference.
    """
    values = np.asarray(differences, dtype=np.float64)
    mean, num_seeds = float(values.mean()) if len(values) else math.nan, len(values)
    if num_seeds < MIN_SEEDS:
        return Contrast(mean)
    spread = standard_deviation(values, unit, num_roundings=2)
    error = spread / math.sqrt(num_seeds) if unit or has_spread(values) or not values.any() else math.nan
    return Contrast(mean, spread, error, num_seeds - 1)


def unpaired(baseline: np.ndarray, candidate: np.ndarray, unit: float = 0.0) -> Contrast:
    """Return the contrast of two variants that share no seeds, from the values (num_seeds,) of each.

    Values come in steps of `unit`. The error is √(s₁²/n₁ + s₂²/n₂), with Satterthwaite's approximate degrees of freedom
    (Welch, Biometrika 34, 1947; Satterthwaite, Biometrics Bulletin 2, 1946).

    The error is unknown if a variant has fewer than `MIN_SEEDS` values. The error is also unknown if values are not
    rounded (`unit` is 0), neither variant has a spread, and the means of the variants differ.
    """
    numbers = np.array([len(baseline), len(candidate)])
    mean = float(candidate.mean() - baseline.mean()) if numbers.all() else math.nan
    if min(numbers) < MIN_SEEDS:
        return Contrast(mean)
    if not unit and not has_spread(baseline) and not has_spread(candidate):
        return Contrast(mean, 0.0, math.nan if mean else 0.0)
    variances = np.array([standard_deviation(values, unit) for values in (baseline, candidate)]) ** 2
    shares = variances / numbers
    return Contrast(
        mean,
        spread=float(np.sqrt(variances.sum())),
        error=float(np.sqrt(shares.sum())),
        freedom=float(shares.sum() ** 2 / (shares**2 / (numbers - 1)).sum()),
    )


class PValues(NamedTuple):
    """Hold a pair's p-values: for a difference within the margin, for any difference, and beyond the margin.

    Unknown p-values are None.
    """

    within: float | None
    differs: float | None
    beyond: float | None


UNKNOWN = PValues(None, None, None)


def p_values(found: Contrast, margin: float, is_one_sided: bool = False) -> PValues:
    """Return the p-values of a contrast. The margin has the unit of the contrast.

    `within` is the larger p-value of two one-sided t-tests for a difference within ±margin (Schuirmann, Journal of
    Pharmacokinetics and Biopharmaceutics 15, 1987). If only losses count (`is_one_sided`), `within` is the p-value for
    a difference above −margin, and `differs` and `beyond` are 1 unless the mean is negative. If the contrast's error is
    unknown, so are all p-values.
    """
    if not found.is_known:
        return UNKNOWN
    within = found.above(-margin)
    if not is_one_sided:
        return PValues(max(within, found.below(margin)), found.beyond(0.0), found.beyond(margin))
    return PValues(within, found.beyond(0.0), found.beyond(margin)) if found.mean < 0 else PValues(within, 1.0, 1.0)


def adjust(pairs: Sequence[PValues], families: Sequence[Hashable]) -> list[PValues]:
    """Return the p-values adjusted by Holm's method, separately for each family and each kind of p-value.

    Args:
        pairs: the p-values of each pair of variants.
        families: the family of each pair, in the same order.
    """
    adjusted = list(pairs)
    for family in set(families):
        members = [index for index, other in enumerate(families) if other == family]
        columns = (holm(column) for column in zip(*(pairs[index] for index in members), strict=True))
        for index, row in zip(members, zip(*columns, strict=True), strict=True):
            adjusted[index] = PValues(*row)
    return adjusted


def outcome(equivalence_p_value: float | None, difference_p_value: float | None) -> EquivalenceOutcome:
    """Return the outcome, given the p-values of the test of equivalence and of the test of "no difference".

    Unknown p-values decide nothing.
    """
    within = equivalence_p_value is not None and equivalence_p_value < SIGNIFICANCE_LEVEL
    shifted = difference_p_value is not None and difference_p_value < SIGNIFICANCE_LEVEL
    outcomes: dict[tuple[bool, bool], EquivalenceOutcome] = {
        (True, False): "equivalent",
        (True, True): "equivalent but shifted",
        (False, True): "different",
        (False, False): "inconclusive",
    }
    return outcomes[within, shifted]


class Loss(NamedTuple):
    """Hold an upper bound of a candidate's loss, and the p-value for a loss below the margin. None means unknown.

    The bound and the p-value allow for all candidates whose losses are bounded together.
    """

    most: float | None = None
    p_within_margin: float | None = None


def loss(gain: Contrast, margin: float, num_candidates: int) -> Loss:
    """Bound a candidate's loss by a one-sided t-test.

    Bonferroni's method divides the level of 5 % among the candidates. Holm's method would decide at least as often, but
    would give no bound beyond "less than the margin".

    Args:
        gain: the contrast, with a known error. A negative mean is a loss.
        margin: in the unit of `gain`.
        num_candidates: how many candidates share the level of 5 %.
    """
    quantile = float(scipy.special.stdtrit(gain.freedom, 1 - SIGNIFICANCE_LEVEL / num_candidates))
    return Loss(
        most=max(0.0, quantile * gain.error - gain.mean),
        p_within_margin=min(1.0, num_candidates * gain.above(-margin)),
    )


def num_seeds_needed(spread: float, margin: float, num_candidates: int, is_one_sided: bool) -> int | None:
    """Return the fewest seeds that show, with 90 % power, that a true difference of 0 is within the margin.

    This is the smallest n ≥ ((t₁₋α + t₁₋β) s / δ)², with n − 1 degrees of freedom and, for a two-sided margin, β / 2 in
    place of β (Chow, Shao & Wang, Sample Size Calculations in Clinical Research, 2008, section 3.2). Return None if
    more than `MAX_SEEDS` seeds are needed.

    Args:
        spread: s, in the same unit as the margin.
        margin: δ.
        num_candidates: how many candidates share the level of 5 %.
        is_one_sided: whether only a loss counts, not a gain.
    """
    level = SIGNIFICANCE_LEVEL / num_candidates
    power = POWER if is_one_sided else (1 + POWER) / 2
    for num_seeds in range(MIN_SEEDS, MAX_SEEDS + 1):
        quantiles = scipy.special.stdtrit(num_seeds - 1, np.array([1 - level, power]))
        if num_seeds >= (quantiles.sum() * spread / margin) ** 2:
            return num_seeds
    return None


def is_beyond(p_beyond_margin: float | None) -> bool:
    """Tell whether a difference is shown to lie beyond the margin. An unknown p-value shows nothing."""
    return p_beyond_margin is not None and p_beyond_margin < SIGNIFICANCE_LEVEL
