"""Set an interval beside a threshold, and say by which rule."""

from dataclasses import dataclass
from typing import Self

from pydantic import model_validator

from pipeline.claims.claim import Assessment, BaseClaim, Rule
from pipeline.study.configuration import PositiveFloat


class ThresholdClaim(BaseClaim):
    """Something measured is at least or at most so much."""

    at_least: PositiveFloat | None = None
    at_most: PositiveFloat | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"claims ({self.id}): give one threshold, at_least or at_most.")
        return self


@dataclass(frozen=True)
class Threshold:
    """Hold the least or the most that `what` is said to be. A ratio on the right side of 1 alone has the direction."""

    what: str
    limit: float
    is_least: bool
    unit: str = "×"
    is_ratio: bool = True

    @property
    def has_direction(self) -> bool:
        return self.is_ratio and (self.limit > 1 if self.is_least else self.limit < 1)

    @property
    def side(self) -> str:
        """Say where a value that holds lies, as in "at 2× or above"."""
        return f"at {self.limit:g}{self.unit} or {'above' if self.is_least else 'below'}"

    @property
    def rule(self) -> Rule:
        interval, limit = f"the whole interval of {self.what}", f"{self.limit:g}{self.unit}"
        right, wrong, less = ("above", "below", "less") if self.is_least else ("below", "above", "more")
        rule = Rule(f"{interval} lies {self.side}", f"{interval} lies {wrong} {limit}", subject=interval)
        if not self.has_direction:
            return rule
        direction = f"{interval} lies {right} 1 and {wrong} {limit}"
        return rule._replace(refuted=f"{rule.refuted} and reaches 1 or {less}", direction=direction)

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit

    def judge(self, low: float | None, high: float | None, measured: str, lack: str) -> Assessment:
        """Compare an interval with the threshold; `lack` says why there is none."""
        if low is None or high is None:
            return Assessment("inconclusive", lack, measured)
        low_holds, high_holds = self.holds(low), self.holds(high)
        has_direction = self.has_direction and (low > 1 if self.is_least else high < 1)
        reaches = f"the interval reaches from below {self.limit:g}{self.unit} to above it"
        return self.rule.decide(
            low_holds and high_holds, not (low_holds or high_holds), measured, reaches, has_direction
        )
