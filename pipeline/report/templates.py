"""Templates and what they write by: numbers as people read them, and words for keys."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import jinja2
from markupsafe import Markup

from pipeline import numbers
from pipeline.claims.schema import Claims
from pipeline.claims.wording import plain
from pipeline.files.characters import escape_deceptive, shown_value
from pipeline.report import answers, words
from pipeline.study.schema import Study
from pipeline.study.variant import PolicyName, Variant

TEMPLATES = Path(__file__).parents[2] / "report"
_COMMAND = r"\b(?:make repro|dvc repro|python -m stages\.\w+)\b(?: (?:--benchmark \w+|--[\w-]+|[A-Z]+=\w+|\w+@[\w-]+))*"


def page_environment(folders: Sequence[Path]) -> jinja2.Environment:
    """Return what renders templates in `folders`: everything is escaped, and what is unknown is a dash."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=shown_value,
    )
    writers: tuple[Callable[..., str], ...] = (
        *(numbers.decimals, numbers.digits, numbers.mebibytes, numbers.percent, numbers.percents, numbers.ranges),
        *(numbers.rare, numbers.span, _estimate),
    )
    environment.filters |= {write.__name__.strip("_"): _unless_unknown(write) for write in writers}
    environment.filters |= {"number": numbers.number, "spread": numbers.mean_and_spread}
    return environment


def template_environment(
    folders: Sequence[Path], study: Study, claims: Claims, benchmarks: Mapping[str, str]
) -> jinja2.Environment:
    """Return what renders templates in `folders` on a study.

    Keys are words: those of `benchmarks`, and else those of the claims.
    """
    environment = page_environment(folders)
    environment.tests["of_itself"] = answers.is_of_itself
    environment.filters |= {
        "plain": plain,
        "prose": _prose({**claims.benchmarks, **benchmarks}, {**claims.variants, **study.variants}),
        "columns": answers.columns,
        "seeds": answers.describe_seeds,
        "faults": words.describe_faults,
    }
    return environment


def _unless_unknown(write: Callable[..., str]) -> Callable[..., str]:
    return lambda value, *how: numbers.UNKNOWN if value is None else write(value, *how)


def _estimate(found: Any, how: str, unit: str = "") -> str:
    """Write a ratio, mean or difference with its interval, which stays on one line; a dash where it is unknown."""
    value = found.ratio if hasattr(found, "ratio") else found.mean
    ends = (found.low95, found.high95) if hasattr(found, "low95") else (found.low, found.high)
    told = numbers.UNKNOWN if value is None else numbers.estimate(value, *ends, how, unit)
    return told.replace(", ", ",\N{NO-BREAK SPACE}")


def _prose(benchmarks: Mapping[str, str], variants: Mapping[str, Variant]) -> Callable[[str], Markup]:
    """Return a filter: keys of benchmarks and variants become words, policies and commands code.

    A number keeps what belongs to it on its line.
    A key that is a word, as float32 is, becomes code only where it stands alone.
    """
    described = {name: words.describe_variant(variant) for name, variant in variants.items()}
    known = {**benchmarks, **described} | dict.fromkeys(get_args(PolicyName), "")
    no_words = sorted((name for name in known if not name.isalnum()), key=len, reverse=True)
    pattern = re.compile(rf"({_COMMAND}|(?<![\w.])(?:{'|'.join(map(re.escape, no_words))})(?!\w|\.\w))")

    def told(key: str) -> str:
        return (
            Markup("<code>{}</code>").format(key) if known.get(key, "") in ("", key) else words.in_brackets(known[key])
        )

    def prose(text: str) -> Markup:
        whole = re.sub(
            r"\[[^]]*\]( %)?|\d (%|(pp|s|ms|MiB)\b)",
            lambda found: found.group().replace(" ", "\N{NO-BREAK SPACE}"),
            escape_deceptive(str(text)),
        )
        parts = ["", whole, ""] if text in known else pattern.split(whole)  # every second one is a key
        return Markup().join(told(part) if index % 2 else part for index, part in enumerate(parts))

    return prose
