"""Render templates to HTML: everything is escaped, what is not known is a dash, and names of variants are code."""

import re
from collections.abc import Iterable
from pathlib import Path

import jinja2
from markupsafe import Markup

from pipeline import numbers
from pipeline.files.characters import escape_deceptive, shown_value
from pipeline.sentences import FILTERS, Said, sentence

TEMPLATES = Path(__file__).parent / "templates"
_COMMAND = r"\b(?:make \w+|dvc repro|python -m stages\.\w+)\b(?: (?:--benchmark \w+|--[\w-]+|[A-Z]+=\S*\w|\w+@[\w-]+))*"


def page_environment(names: Iterable[str] = ()) -> jinja2.Environment:
    """Return what renders our templates; `names`, and commands, become code in sentences."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, TEMPLATES / "page"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: numbers.UNKNOWN if value is None else shown_value(value),
    )
    keys = sorted((name for name in names if not name.isalpha()), key=len, reverse=True)
    code = re.compile("|".join([_COMMAND, *(rf"(?<![\w.-])(?:{re.escape(key)})(?![\w.-]\w)" for key in keys)]))

    def prose(text: str) -> Markup:
        """Mark names and commands as code, and keep an interval and a unit on the line of their number."""
        whole = re.sub(
            r"\[[^]]*\]( %)?|\d (%|(pp|s|ms|points|MiB)\b)",
            lambda found: found.group().replace(" ", "\N{NO-BREAK SPACE}"),
            escape_deceptive(str(text)),
        )
        found, end = [], 0
        for match in code.finditer(whole):
            found += [whole[end : match.start()], Markup("<code>{}</code>").format(match.group())]
            end = match.end()
        return Markup().join([*found, whole[end:]])

    environment.filters |= FILTERS | {
        "prose": prose,
        "say": lambda said: prose(sentence(said)),
        "mebibytes": numbers.mebibytes,
        "span": numbers.span,
        "spread": numbers.mean_and_spread,
    }
    environment.globals["tell"] = lambda code, **values: prose(sentence(Said(code, values)))
    return environment
