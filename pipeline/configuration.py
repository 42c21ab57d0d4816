"""Reading YAML files against a pydantic model, all faults in one message."""

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipeline.errors import InputError

# Names become stage names, folders, shell words and key paths. DVC joins stage names with "-", so "-" would make two
# different combinations of names collide; it splits key paths at "."; and a name of digits would read as a number.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Campaign = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
NonNegativeInt = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A part of a configuration file: immutable, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class _Loader(yaml.SafeLoader):
    """YAML as DVC reads it: 1e-05 is a number, as in YAML 1.2, and a key that stands twice is a fault."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


SectionT = TypeVar("SectionT", bound=Section)


def read(model: type[SectionT], path: Path) -> SectionT:
    """The file at `path` as a `model`.

    Raises:
        InputError: the file is missing, is not YAML, or does not fit the model; the text lists every fault with its
            key path, what was received and what would be right.
    """
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  derives from SafeLoader
    except FileNotFoundError:
        raise InputError(f"{path} is missing. Get it back with: git checkout -- {path.name}") from None
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable as YAML: {error}") from None
    return validate(model, values, str(path))


def validate(model: type[SectionT], values: Any, source: str) -> SectionT:
    """`values` as a `model`; `source` is the name that faults are reported under."""
    more = ""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = [fault for fault in error.errors() if fault["type"] != "default_factory_not_called"]
        faults = [line for fault in errors for line in _describe(model, fault)]
        if any(fault["type"] != "value_error" for fault in errors):
            more = "\n  What depends on several keys is checked once these are mended."
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    raise InputError(f"{source}: {count}, nothing was started.\n" + "\n".join(f"  {fault}" for fault in faults) + more)


def _describe(model: type[BaseModel], fault: Any) -> list[str]:
    """The lines that tell one fault of pydantic's; a check across fields brings a line for each it found."""
    parts, known = _walk(model, fault["loc"])
    where = ".".join(parts) or "(the whole file)"
    location = fault["loc"]
    if fault["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"Did you mean '{nearest[0]}'?" if nearest else f"Known keys: {', '.join(sorted(known))}."
        return [f"{where}: unknown key. {hint}"]
    if fault["type"] == "missing":
        only = known.get(str(location[-1]), {}).get("const")
        return [f"{where}: missing; it is {only!r}." if only else f"{where}: missing."]
    message = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return message.split("\n")
    return [f"{where}: {message}. Received: {fault['input']!r}"]


def _walk(model: type[BaseModel], location: tuple[Any, ...]) -> tuple[list[str], dict[str, Any]]:
    """The key path of a fault as it stands in the file, and the schemas of the keys allowed around its last part.

    pydantic's own path also names the member of a union that was chosen; the JSON schema tells which parts those are.
    """
    schema = model.model_json_schema()
    node: dict[str, Any] = schema
    path: list[str] = []
    known: dict[str, Any] = {}
    for part in location:
        known = node.get("properties", {})
        tags = node.get("discriminator", {}).get("mapping", {})
        if not tags:  # chosen by a function: the tags are the names of the members
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
    return path, known
