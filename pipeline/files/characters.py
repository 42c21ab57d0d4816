"""Find characters that make a text look like another: directional, invisible, control, or half of a pair."""

import unicodedata
from typing import Any

_LEGITIMATE = "\n\t\u200c\u200d"  # the last two join letters, or keep them apart, in several scripts and in emoji


def is_deceptive(character: str) -> bool:
    """Return whether a terminal or a browser would obey or hide `character` instead of showing it."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _LEGITIMATE


def escape_deceptive(text: str) -> str:
    """Return `text` with every deceptive character escaped as its number, such as u202e after a backslash."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_number(character) if is_deceptive(character) else character for character in text)


def shown_value(value: Any) -> Any:
    """Return `value`, escaped if it is plain text. Templates use this; their own markup stays as it is."""
    return escape_deceptive(value) if type(value) is str else value


def _number(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 2**16 else f"\\U{ord(character):08x}"
