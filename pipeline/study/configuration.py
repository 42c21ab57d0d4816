"""Validate YAML files against a pydantic model, and report their faults in one message."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.untrusted import excerpt

MAX_SHOWN = 300  # characters shown of a faulty value

# Names become parts of DVC's stage names, folders, shell commands and key paths. DVC splits stage names at "@" and key
# paths at ".". YAML would read a name of digits alone as a number. File systems allow 255 bytes per name.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)]
Campaign = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)]
# These limits keep arithmetic from overflowing: a trillion for counts, about a third of float32's range for floats.
NonNegativeInt = Annotated[int, Field(ge=0, le=10**12)]
PositiveInt = Annotated[int, Field(gt=0, le=10**12)]
PositiveFloat = Annotated[float, Field(gt=0, le=1e38)]
MAX_RUNS = 20_000


# The path of a user's file or folder.
SourcePath = Annotated[str, StringConstraints(min_length=1)]


class Section(BaseModel):
    """Hold an immutable part of a configuration file; refuse unknown keys, conversions of types, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def unknown_name(field: str, name: str, wanted: str, known: Iterable[str]) -> str:
    """Return a message that `field` must be `wanted`, with the `known` names and the `name` received."""
    return f"{field}: must be {wanted} ({', '.join(known) or 'it has none'}). Received: {name!r}"


def differing(before: Any, now: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of keys to each value that differs between two nested mappings, or is missing from one of them."""
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        if before != now:
            yield ()
        return
    for name in dict.fromkeys([*before, *now]):
        if name not in before or name not in now:
            yield (str(name),)
        else:
            yield from ((str(name), *rest) for rest in differing(before[name], now[name]))


SectionT = TypeVar("SectionT", bound=Section)


def read(model: type[SectionT], path: Path) -> SectionT:
    """Read the file at `path` as a `model`.

    Raises:
        InputError: the file is missing, is not YAML, or does not fit the model. The message lists the faults, each with
            its key path. Checks across several keys come only after each key by itself is valid.
    """
    return validate(model, yaml_files.load(path), str(path))


def validate(model: type[SectionT], values: Any, source: str) -> SectionT:
    """Return `values` as a `model`.

    Raises:
        InputError: the values do not fit the model. The message begins with `source`, and lists the faults.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = [fault for fault in error.errors() if fault["type"] != "default_factory_not_called"]
    faults = [line for fault in errors for line in _told(model, fault)]
    count = "1 fault" if len(faults) == 1 else f"{len(faults):,} faults"
    lines = [f"{source}: {count}, nothing was started.", *(f"  {fault}" for fault in faults)]
    if any(fault["loc"] or fault["type"] != "value_error" for fault in errors):
        lines.append("  What depends on several keys is checked once these are mended.")
    raise InputError("\n".join(lines))


def _where(path: Sequence[str]) -> str:
    return ".".join(excerpt(part) for part in path) or "(the whole file)"


def _told(model: type[BaseModel], fault: Any) -> list[str]:
    """Return the lines that describe one pydantic error; a check across several keys may report several faults."""
    location = fault["loc"]
    parts, known, node = _walk(model, location)
    where = _where(parts)
    if fault["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"Did you mean '{nearest[0]}'?" if nearest else f"Known keys: {', '.join(sorted(known))}."
        return [f"{where}: unknown key. {hint}"]
    if fault["type"] == "missing":
        only = known.get(str(location[-1]), {}).get("const")
        return [f"{where}: missing; it is {only!r}." if only else f"{where}: missing."]
    union = node.get("discriminator", {})
    if union and fault["type"] == "union_tag_not_found":
        return [f"{where}.{union['propertyName']}: missing; it is one of {', '.join(union['mapping'])}."]
    message = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return [f"{where}: {message}"] if location else message.split("\n")
    if fault["type"] in ("dict_type", "model_type", "model_attributes_type"):
        keys = ", ".join(node.get("properties") or [union.get("propertyName", "")])
        message = f"must be keys with values ({keys})" if keys else "must be keys with values"
    received = repr(fault["input"])
    return [f"{where}: {message}. Received: {received[:MAX_SHOWN]}{'…' if len(received) > MAX_SHOWN else ''}"]


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _walk(model: type[BaseModel], location: tuple[Any, ...]) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Return a fault's key path as in the file, the schemas of all keys at the fault's level, and the fault's schema.

    pydantic's `location` also names the chosen member of a union. The JSON schema shows which parts of `location` are
    such names.
    """
    schema = _schema(model)
    node: dict[str, Any] = schema
    path: list[str] = []
    known: dict[str, Any] = {}
    for part in location:
        known = node.get("properties", {})
        tags = node.get("discriminator", {}).get("mapping", {})
        if not tags:  # if a function chooses the member, tags are the members' names
            tags = {member["$ref"].rsplit("/", 1)[-1]: member["$ref"] for member in node.get("oneOf", ())}
        if part in tags:
            node = {"$ref": tags[part]}
        elif part != "[key]":
            path.append(str(part))
            if part in node.get("properties", {}):
                node = node["properties"][part]
            elif "patternProperties" in node:
                node = next(iter(node["patternProperties"].values()))
            else:
                node = node.get("items" if isinstance(part, int) else "additionalProperties") or {}
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
    return path, known, node
