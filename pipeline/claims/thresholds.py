"""Set an interval beside a threshold."""

from typing import NamedTuple, Self

from pydantic import model_validator

from pipeline.claims.claim import Assessment, BaseClaim
from pipeline.study.configuration import PositiveFloat


class Threshold(NamedTuple):
    """Hold the least or the most that something measured is said to be."""

    limit: float
    is_least: bool
    unit: str = "×"

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit

    @property
    def words(self) -> str:
        """Say where a value that holds lies, as in "at 2× or above"."""
        return f"at {self.limit:g}{self.unit} or {'above' if self.is_least else 'below'}"

    def judge(
        self, low: float | None, high: float | None, measured: str, lack: str = "", is_ratio: bool = True
    ) -> Assessment:
        """Compare an interval with the threshold; `lack` says why there is none.

        A ratio on the right side of 1 that misses the threshold has the direction alone.
        """
        if low is None or high is None:
            return Assessment("inconclusive", lack, measured)
        limit, low_holds, high_holds = f"{self.limit:g}{self.unit}", self.holds(low), self.holds(high)
        where = "it lies" if low == high else "the whole interval lies"
        if low_holds and high_holds:
            return Assessment("reproduced", f"{where} {self.words}", measured)
        if low_holds or high_holds:
            return Assessment("inconclusive", f"the interval reaches from below {limit} to above it", measured)
        right, wrong = ("above", "below") if self.is_least else ("below", "above")
        if is_ratio and (low > 1 if self.is_least else high < 1):
            return Assessment("in direction only", f"{where} {right} 1 and {wrong} {limit}", measured)
        return Assessment("not reproduced", f"{where} {wrong} {limit}", measured)


class ThresholdClaim(BaseClaim):
    """Something measured is at least or at most so much."""

    at_least: PositiveFloat | None = None
    at_most: PositiveFloat | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"claims ({self.id}): give one threshold, at_least or at_most.")
        return self

    def threshold(self, unit: str = "×") -> Threshold:
        return Threshold(self.at_least or self.at_most or 0.0, self.at_least is not None, unit)
