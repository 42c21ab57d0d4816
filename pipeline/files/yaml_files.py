"""Read and write YAML 1.2 with ruamel.yaml, as DVC does: 010 is ten, and 2:08 is a string.

If two parsers could read a study differently, the study that is run might not be the study that was checked.
"""

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from pipeline.errors import InputError

_MAX_BYTES = 2**20  # enough for a thousand benchmarks; the parser takes seconds for ten times as many
_MAX_DEPTH = 50  # the parser is recursive, and crashes the process at about ten thousand levels


def load(path: Path) -> Any:
    """Return the parsed content of the YAML file at `path`.

    Raises:
        InputError: the file is missing, can't be read, or is not YAML.
    """
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise InputError(f"{path} is missing. If it came with this project: git checkout -- {path.name}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not readable as YAML: {error}") from None


def parse(text: str, source: str) -> Any:
    """Return the parsed content of `text`, which is YAML. Error messages begin with `source`.

    Raises:
        InputError: the text is not YAML.
    """
    try:
        return YAML(typ="safe").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(f"{source} is not readable as YAML: {where}{error.problem or error.context}") from None
    except Exception as error:  # the parser raises various errors for malformed numbers and dates
        raise InputError(f"{source} is not readable as YAML: {str(error)[:500]}") from None


def dump(values: Any) -> str:
    """Return `values` as YAML that DVC and `parse` read back unchanged."""
    stream = io.StringIO()
    writer = YAML()
    writer.width = 120
    writer.dump(values, stream)
    return stream.getvalue()


def check_untrusted(content: bytes) -> None:
    """Raise `ValueError` if `content`, a stranger's YAML, could crash the parser or grow far beyond its own size.

    If `content` is not valid YAML, the parser's own error is raised.
    """
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
    depth = 0
    for event in YAML(typ="safe").parse(content.decode()):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")
        if isinstance(event, AliasEvent):
            raise ValueError("it has aliases; write out their values")
