"""Turn results into sentences.

A function that makes a decision returns a `Said`: the code of a sentence, and the values in the sentence. A function
that reports the decision turns the `Said` into text. Each code names a template in `pipeline/words/sentences.yaml`.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from pipeline.files import yaml_files
from pipeline.words import numbers

SENTENCES = Path(__file__).parent / "sentences.yaml"


@dataclass(frozen=True)
class Said:
    """Name a sentence by its code, and hold the values that fill in the sentence, by name."""

    code: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


def sentence(said: Said) -> str:
    """Return the text of the sentence that `said` names, with the values filled in."""
    return environment().get_template(said.code).render(said.numbers).strip()


def sentences(said: Iterable[Said]) -> str:
    """Return the texts of several sentences, separated by spaces."""
    return " ".join(map(sentence, said))


@functools.cache
def environment() -> jinja2.Environment:
    """Return the Jinja environment, which finds a template by its dotted code, such as "claim.threshold.holds"."""
    texts = _flat(yaml_files.load(SENTENCES))
    found = jinja2.Environment(  # noqa: S701  sentences are plain text, which pages escape
        loader=jinja2.DictLoader(texts), undefined=jinja2.StrictUndefined
    )
    found.filters |= FILTERS
    return found


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in nested.items():
        code = f"{prefix}{name}"
        found |= _flat(value, f"{code}.") if isinstance(value, Mapping) else {code: value}
    return found


def times(ratio: float) -> str:
    """Write a ratio, as in "1.23×"."""
    return f"{ratio:.2f}×"


def times_to(least: float, most: float) -> str:
    """Write a range of ratios, as in "1.42 to 1.51×", or a single ratio, as in "1.42×"."""
    return " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (least, most))) + "×"


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun, as in "1 seed", "5,000 seeds" or "no seed".

    `plural` is needed only if the plural is not the noun with an "s".
    """
    return f"{numbers.number(number or 'no')} {(plural or f'{noun}s') if number > 1 else noun}"


def points(margin_pp: float) -> str:
    """Write a margin in percentage points, as in "±1 point" or "±0.5 points"."""
    return f"±{numbers.number(margin_pp)} point{'s' if margin_pp != 1 else ''}"


def either(names: Sequence[str]) -> str:
    """Join alternatives, as in "a, b or c"."""
    return numbers.listed(map(str, names)).replace(" and ", " or ")


def loss(numbers_of_pair: Mapping[str, Any]) -> str:
    """Write the accuracy that a candidate may lose, as in "less than 0.76 points of accuracy".

    `numbers_of_pair` holds the candidate's `most_loss_pp` and `difference_pp`.
    """
    return sentence(Said("name.loss", numbers_of_pair))


FILTERS: dict[str, Callable[..., Any]] = {
    "bound": numbers.bound,
    "count": count,
    "decimals": numbers.decimals,
    "duration": numbers.duration,
    "digits": numbers.digits,
    "either": either,
    "interval": numbers.interval,
    "loss": loss,
    "listed": lambda names: numbers.listed(map(str, names)),
    "number": numbers.number,
    "percent": numbers.percent,
    "percents": numbers.percents,
    "points": points,
    "ranges": numbers.ranges,
    "rare": numbers.rare,
    "times": times,
    "times_to": times_to,
}
