"""Provide the Jinja environments that render templates to HTML and to Markdown."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import jinja2
from markupsafe import Markup, escape

from pipeline.words import numbers
from pipeline.words.sentences import FILTERS, Said, sentence

TEMPLATES = Path(__file__).parent / "templates"
# Characters that stay as they are. Some writing systems need the last two for spelling.
_BLANK = "\n\t\N{NO-BREAK SPACE}\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
_COMMAND = (
    r"(?:\.venv/bin/|\b)(?:make \w+|dvc repro|python -m stages\.\w+)\b"
    r"(?: (?:--benchmark \w+|--[\w-]+|[A-Z]+=\S*\w|\w+@[\w-]+))*"
)
_VARIABLES = r"\b[A-Z_]{4,}=\d+(?: [A-Z_]{4,}=\d+)*"  # settings of environment variables
# Characters with a meaning in Markdown: code, emphasis, cells, tags, and the bracket that ends the text of a link.
_MARKDOWN = re.compile(r"[\\`*|<~#]|(?<!\w)_|_(?!\w)|\](?=[(\[:])")


def _visible(value: object) -> str:
    """Return the text of `value`, with escape codes in place of unprintable characters. None becomes a dash."""
    text = numbers.UNKNOWN if value is None else str(value)
    return "".join(one if one.isprintable() or one in _BLANK else ascii(one)[1:-1] for one in text)


def page_environment(names: Mapping[str, str] = MappingProxyType({})) -> jinja2.Environment:
    """Return the Jinja environment for HTML templates. The filter `prose` sets commands and names from YAML as code.

    Args:
        names: the name for readers of each variant and benchmark, by the name in YAML. The filter `named` replaces
            names in YAML with names for readers.
    """
    return _environment(names, escape, lambda text: Markup("<code>{}</code>").format(text))


def markdown_environment(names: Mapping[str, str] = MappingProxyType({})) -> jinja2.Environment:
    """Return the Jinja environment for Markdown templates, with the same filters as `page_environment`."""

    def escape_markdown(value: object) -> Markup:
        if isinstance(value, Markup):
            return value
        return Markup(_MARKDOWN.sub(r"\\\g<0>", re.sub(r"\s*\n\s*", " ", str(value))))  # noqa: S704  escaped

    return _environment(names, escape_markdown, lambda text: Markup(f"`{text}`"))  # noqa: S704  a name


def _environment(
    names: Mapping[str, str], escape_text: Callable[[object], Markup], as_code: Callable[[str], Markup]
) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, TEMPLATES / "page"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: escape_text(value if isinstance(value, Markup) else _visible(value)),
    )
    keys = sorted((name for name in names if not name.isalpha()), key=len, reverse=True)
    names_in_text = (rf"(?<![\w.-])(?:{re.escape(key)})(?![\w.-]\w)" for key in keys)
    code = re.compile("|".join([_COMMAND, _VARIABLES, *names_in_text]))

    def prose(text: str) -> Markup:
        """Set names and commands as code. Keep each interval on one line, and each number beside its unit."""
        whole = re.sub(
            r"\[[^]]*\]( %)?|\d (%|(pp|s|ms|points?|MiB)\b)",
            lambda found: found.group().replace(" ", "\N{NO-BREAK SPACE}"),
            _visible(text),
        )
        found, end = [], 0
        for match in code.finditer(whole):
            found += [escape_text(whole[end : match.start()]), as_code(match.group())]
            end = match.end()
        return Markup().join([*found, escape_text(whole[end:])])

    def named(said: Said) -> Said:
        return Said(said.code, {key: names.get(str(value), value) for key, value in said.numbers.items()})

    environment.filters |= FILTERS | {"span": numbers.span, "spread": numbers.mean_and_spread}
    environment.filters |= {"prose": prose, "named": named, "say": lambda said: prose(sentence(said))}
    environment.globals["tell"] = lambda code, **values: prose(sentence(Said(code, values)))
    return environment
