"""Format numbers and lists of words for people: a true minus sign, thousands separators, a dash for unknown values."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import mean, stdev
from typing import Any

UNKNOWN, NO_INTERVAL = "–", "(no interval)"
_SIGNED_ZERO = re.compile(r"[-+](0(?:\.0+)?)(?![\d.])")


def number(value: Any) -> str:
    """Format a number, or the text of a number, as in "65,536", "infinite" or "1.00 × 10⁻¹⁰".

    None becomes "not set", True becomes "on", and False becomes "off". Other text is returned unchanged.
    """
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "on", False: "off"}[value]
    try:
        size = abs(float(value))
    except (TypeError, ValueError):
        return str(value)
    if not math.isfinite(size):
        return "infinite" if math.isinf(size) else "not a number"
    if size == 0 or 1e-4 <= size < 1e9:
        return decimals(float(value), ",.7g")
    mantissa, exponent = f"{float(value):.2e}".split("e")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{decimals(float(mantissa), '.2f')} × 10{power}"


def span(values: Sequence[float]) -> str:
    """Format the smallest and the largest value, as in "3 to 5", or a single number if the two are equal."""
    return " to ".join(number(value) for value in dict.fromkeys((min(values), max(values))))


def decimals(value: float, how: str) -> str:
    """Format `value` with the format specification `how`, such as ".2f", or with `digits` if `how` is "digits".

    A value that rounds to zero gets no sign.
    """
    text = digits(value) if how == "digits" else f"{value:{how}}"
    return _SIGNED_ZERO.sub(r"\1", text).replace("-", "−")


def percent(share: float, how: str = ".0f") -> str:
    """Write a share between 0 and 1 as a percentage, as in "62 %", with the format specification `how`."""
    return f"{decimals(100 * share, how)} %"


def percents(shares: Sequence[float]) -> str:
    """Write the smallest and the largest of `shares` as percentages, as in "44.1 to 57.3 %"."""
    return " to ".join(dict.fromkeys(decimals(100 * share, ".1f") for share in (min(shares), max(shares)))) + " %"


def rare(share: float) -> str:
    """Write a share that may be tiny as a percentage: "none", "less than 0.001 %" or "0.62 %"."""
    if 0 < share < 1e-5:
        return f"less than {percent(1e-5, '.3f')}"
    return percent(share, ".2g") if share else "none"


def digits(value: float) -> str:
    """Write three significant digits, and every digit before the decimal point: 0.123, 12.0, 1,234."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def bound(value: float) -> str:
    """Write an upper bound above 0, rounded up to three significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return digits(math.ceil(value / step - 1e-9) * step)


def interval(estimate: Any, how: str, factor: float = 1.0) -> str:
    """Write the ends of an interval, multiplied by `factor`, as in "[−0.40, +0.16]".

    If an end is unknown, return `NO_INTERVAL`.

    Args:
        estimate: an object or a mapping with `low` and `high`, which may be None.
        how: the format specification of the ends, as for `decimals`.
    """
    fields = estimate if isinstance(estimate, Mapping) else vars(estimate)
    low, high = fields["low"], fields["high"]
    if low is None or high is None:
        return NO_INTERVAL
    return f"[{decimals(factor * low, how)}, {decimals(factor * high, how)}]"


def mean_and_spread(values: Sequence[float], num_decimals: int = 2, scale: float = 1.0) -> str:
    """Write the mean and the standard deviation of `values`, multiplied by `scale`, as in "12.30 ± 0.40".

    A single value gets no standard deviation. Without values, return `UNKNOWN`.
    """
    if not values:
        return UNKNOWN
    scaled = [scale * value for value in values]
    spread = f" ± {stdev(scaled):.{num_decimals}f}" if len(scaled) > 1 else ""
    return f"{mean(scaled):.{num_decimals}f}{spread}"


def mebibytes(num_bytes: float) -> str:
    """Write a number of bytes in MiB, without the unit, as in "1,942"."""
    return decimals(num_bytes / 2**20, ",.0f")


def duration(seconds: float) -> str:
    """Write a duration in seconds, minutes or hours: 3 s, 90 s, 9 min, 2.5 h."""
    if seconds < 115:
        return f"{seconds if seconds < 9.5 else round(seconds, -1):.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def listed(words: Iterable[str]) -> str:
    """Join words into a list, as in "a, b and c"."""
    *rest, last = list(words) or [""]
    return f"{', '.join(rest)} and {last}" if rest else last


def ranges(values: Iterable[int]) -> str:
    """List whole numbers in ascending order, as in "0, 1 and 5 to 9".

    Three or more consecutive numbers become a range.
    """
    told: list[str] = []
    for _, group in groupby(enumerate(values), key=lambda placed: placed[1] - placed[0]):
        run = [str(value) for _, value in group]
        told += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
    return listed(told)
