"""Test whether two variants, paired by seed or not, differ by less than a margin or by more.

Also compute what a given number of seeds could show.
"""

import bisect
import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.statistics.intervals import MIN_SEEDS, Estimate, has_spread, holm, standard_deviation

SIGNIFICANCE_LEVEL = 0.05
POWER = 0.8
MAX_SEEDS = 1000  # no larger number of seeds is suggested
# A margin wider than this share of the baseline's accuracy means little: near chance, everything is equivalent.
MAX_MARGIN_SHARE = 0.1
EquivalenceOutcome = Literal["equivalent", "different", "equivalent but shifted", "inconclusive"]


class Contrast(NamedTuple):
    """Hold a mean difference (candidate − baseline), its standard error and degrees of freedom. NaN means unknown.

    `spread` is the standard deviation of the difference between one run of each variant. `freedom_per_seed` counts the
    degrees of freedom that one more seed of each variant adds. Variants with equal results have an error of 0.
    """

    mean: float = math.nan
    spread: float = math.nan
    error: float = math.nan
    freedom: float = math.nan
    freedom_per_seed: float = 1.0

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.error)

    @property
    def estimate(self) -> Estimate:
        """Return the mean difference with its t-interval."""
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

        This is twice the p-value of the one-sided t-test on the side of the mean. It is below 5 % if the whole 95 %
        interval lies beyond the bound. Doubling allows for errors in both directions: the test keeps its level at any
        spread, and finds a difference only if the test of "no difference" also finds one.
        """
        return min(1.0, 2 * self._replace(mean=abs(self.mean)).above(bound))


def paired(differences: ArrayLike, unit: float = 0.0) -> Contrast:
    """Return the contrast of paired differences (num_seeds,) of results that come in steps of `unit`.

    The error is unknown with fewer than `MIN_SEEDS` differences. Differences that are not rounded have an unknown
    error, too, if all are equal but not zero, and an error of 0 if all are zero.
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
    (Welch, Biometrika 34, 1947; Satterthwaite, Biometrics Bulletin 2, 1946). It is unknown if a variant has fewer than
    `MIN_SEEDS` values, or if values are not rounded, neither variant has a spread, and their means differ.
    """
    numbers = np.array([len(baseline), len(candidate)])
    mean = float(candidate.mean() - baseline.mean()) if numbers.all() else math.nan
    if min(numbers) < MIN_SEEDS:
        return Contrast(mean)
    if not unit and not has_spread(baseline) and not has_spread(candidate):
        return Contrast(mean, 0.0, math.nan if mean else 0.0)
    variances = np.array([standard_deviation(values, unit) for values in (baseline, candidate)]) ** 2
    shares, total = variances / numbers, variances.sum()
    return Contrast(
        mean,
        spread=float(np.sqrt(total)),
        error=float(np.sqrt(shares.sum())),
        freedom=float(shares.sum() ** 2 / (shares**2 / (numbers - 1)).sum()),
        freedom_per_seed=float(total**2 / (variances**2).sum()),
    )


class PValues(NamedTuple):
    """Hold a pair's p-values: for a difference within the margin, for any difference, and for one beyond the margin.

    A p-value is None if it is unknown.
    """

    within: float | None
    differs: float | None
    beyond: float | None


UNKNOWN = PValues(None, None, None)


class Design(NamedTuple):
    """Hold two properties of a test: whether only losses count, and the degrees of freedom that a seed adds.

    A seed adds one degree if differences are paired, and up to two (at equal spreads) if variants share no seeds. If
    only losses count, a gain is positive: the caller flips the sign of metrics for which lower is better.
    """

    is_one_sided: bool = False
    freedom_per_seed: float = 1.0


PAIRED = Design()


def p_values(found: Contrast, margin_pp: float, is_one_sided: bool = False) -> PValues:
    """Return the p-values of a contrast. If only losses count, `differs` and `beyond` are 1 for a gain.

    `within` is the larger p-value of two one-sided t-tests for a difference within ±margin (Schuirmann, Journal of
    Pharmacokinetics and Biopharmaceutics 15, 1987). If only losses count, only the test above −margin is made.
    """
    if not found.is_known:
        return UNKNOWN
    within = found.above(-margin_pp)
    if not is_one_sided:
        return PValues(max(within, found.below(margin_pp)), found.beyond(0.0), found.beyond(margin_pp))
    return PValues(within, found.beyond(0.0), found.beyond(margin_pp)) if found.mean < 0 else PValues(within, 1.0, 1.0)


def adjust(pairs: Sequence[PValues], families: Sequence[Hashable]) -> list[PValues]:
    """Adjust the p-values of pairs by Holm's method, separately for each family and each kind of p-value."""
    adjusted = list(pairs)
    for family in set(families):
        members = [index for index, other in enumerate(families) if other == family]
        columns = (holm(column) for column in zip(*(pairs[index] for index in members), strict=True))
        for index, row in zip(members, zip(*columns, strict=True), strict=True):
            adjusted[index] = PValues(*row)
    return adjusted


def margin_means_something(margin_pp: float, baseline_accuracy: float) -> bool:
    """Tell whether the margin is small compared with the baseline's accuracy, in [0, 1]."""
    return margin_pp / 100 <= MAX_MARGIN_SHARE * baseline_accuracy


def outcome(equivalence_p_value: float | None, difference_p_value: float | None) -> EquivalenceOutcome:
    """Return the outcome, given the p-values of TOST and of "no difference". Unknown p-values decide nothing."""
    within = equivalence_p_value is not None and equivalence_p_value < SIGNIFICANCE_LEVEL
    shifted = difference_p_value is not None and difference_p_value < SIGNIFICANCE_LEVEL
    outcomes: dict[tuple[bool, bool], EquivalenceOutcome] = {
        (True, False): "equivalent",
        (True, True): "equivalent but shifted",
        (False, True): "different",
        (False, False): "inconclusive",
    }
    return outcomes[within, shifted]


def power(
    spread: float,
    margin: float,
    num_seeds: float,
    difference: float = 0.0,
    num_candidates: int = 1,
    design: Design = PAIRED,
) -> float:
    """Return the probability that TOST at 5 % shows equivalence within ±margin if the true difference is `difference`.

    The value is exact. Given the sample's standard deviation s, both tests reject if the mean lies within ±(margin − t
    s / √n). The probability of rejection is integrated over the distribution of s (Chow, Shao & Wang, Sample Size
    Calculations in Clinical Research, 2008, section 3.2). If only losses count, the probability comes from the
    noncentral t distribution. `spread` > 0 is that of a `Contrast`, in the margin's unit. With several candidates, the
    level is divided by their number, as in the strictest step of Holm's method.
    """
    freedom = design.freedom_per_seed * (num_seeds - 1)
    error = spread / np.sqrt(num_seeds)
    critical = scipy.stats.t.ppf(1 - SIGNIFICANCE_LEVEL / num_candidates, freedom)
    if design.is_one_sided:
        return float(scipy.stats.nct.sf(critical, freedom, np.clip((margin + difference) / error, -1e3, 1e3)))

    def integrand(u: np.ndarray) -> np.ndarray:  # u = s / spread, and u √freedom has the chi distribution
        half = margin - critical * u * error
        both = scipy.stats.norm.cdf((half - difference) / error) - scipy.stats.norm.cdf((-half - difference) / error)
        density: np.ndarray = both * scipy.stats.chi.pdf(u * np.sqrt(freedom), freedom) * np.sqrt(freedom)
        return density

    # The tails of u beyond these limits are negligible, and no test rejects if u exceeds margin / (critical * error).
    lowest, highest = max(0.0, 1 - 12 / np.sqrt(freedom)), min(1 + 12 / np.sqrt(freedom), margin / (critical * error))
    return float(scipy.integrate.fixed_quad(integrand, lowest, highest, n=200)[0]) if highest > lowest else 0.0


def beyond_power(
    spread: float,
    margin: float,
    num_seeds: float,
    difference: float,
    num_candidates: int = 1,
    design: Design = PAIRED,
) -> float:
    """Return the power of `Contrast.beyond` at 5 %: the probability that it finds a true `difference` beyond ±margin.

    The probability comes from the noncentral t distribution. The arguments are those of `power`. The chance of a
    result on the wrong side is left out.
    """
    freedom = design.freedom_per_seed * (num_seeds - 1)
    critical = scipy.stats.t.isf(SIGNIFICANCE_LEVEL / num_candidates / 2, freedom)
    excess = min((abs(difference) - margin) * np.sqrt(num_seeds) / spread, 1e3)  # nct overflows above this
    return float(scipy.stats.nct.sf(critical, freedom, excess))


def num_seeds_needed(
    spread: float, margin: float, num_candidates: int = 1, difference: float = 0.0, design: Design = PAIRED
) -> int | None:
    """Return the fewest seeds that show, with 80 % power, on which side of ±margin a true `difference` lies.

    Return None if more than `MAX_SEEDS` are needed: the spread is wide, or the difference is close to the margin.
    """
    room = margin + difference if design.is_one_sided else margin - abs(difference)
    if abs(room) < 1e-9:
        return None
    if spread < 1e-9:
        return MIN_SEEDS
    shown = power if room > 0 else beyond_power

    def enough(num_seeds: int) -> bool:
        return shown(spread, margin, num_seeds, difference, num_candidates, design) >= POWER

    if not enough(MAX_SEEDS):
        return None
    # Power grows with the number of seeds.
    return bisect.bisect_left(range(MAX_SEEDS), True, lo=MIN_SEEDS, key=enough)


def is_beyond(p_beyond_margin: float | None) -> bool:
    """Tell whether a difference is shown to lie beyond the margin."""
    return p_beyond_margin is not None and p_beyond_margin < SIGNIFICANCE_LEVEL


def is_decided(outcome: str | None, p_beyond_margin: float | None) -> bool:
    """Tell whether the tests show on which side of the margin a difference lies."""
    return is_beyond(p_beyond_margin) or (outcome or "").startswith("equivalent")
