"""Read off an optimised program, in XLA's text, in which dtypes it multiplies. Pure functions on text."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

# %name = f32[8,4]{1,0} opcode(%a, %b), attributes; a tuple stands in parentheses.
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w-]+)\(([^)]*)\)(.*)$")
_DTYPE = re.compile(r"\b(pred|bf16|[a-z]\d+(?:e\dm\d\w*)?)\[")
_PLACE = re.compile(r'op_name="([^"]*)"')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_SHORT = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}


class Operation(NamedTuple):
    """A matrix product or a convolution: dtypes of operands and result, and its place in the model."""

    kind: str
    operands: str
    result: str
    place: str


def operations(text: str) -> list[Operation]:
    """Return every matrix product and convolution of a program, those inside fusions and library calls among them."""
    return list(_operations(text))


def _operations(text: str) -> Iterator[Operation]:
    dtypes: dict[str, str] = {}  # of the values of a computation, whose names are its own
    for line in text.splitlines():
        if line.endswith("{") and " = " not in line:
            dtypes = {}
            continue
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        name, shape, opcode, inputs, attributes = found.groups()
        first = _DTYPE.search(shape)
        dtypes[name] = first[1] if first else ""
        if kind := _kind(opcode, attributes):
            operands = [_operand(part, dtypes) for part in re.split(r",\s*(?![^\[{]*[\]}])", inputs)[:2]]
            yield Operation(
                kind,
                " × ".join(dict.fromkeys(_SHORT.get(dtype, dtype) for dtype in operands)),
                _SHORT.get(dtypes[name], dtypes[name]),
                _place(attributes),
            )


def _kind(opcode: str, attributes: str) -> str | None:
    """Return the kind of an instruction, or None. On a TPU every product has become a convolution."""
    if opcode == "dot":
        return "product"
    if opcode == "convolution":
        place = _PLACE.search(attributes)
        return "product" if place and "conv_general_dilated" not in place[1] and "dot" in place[1] else "convolution"
    if opcode == "custom-call" and (target := _TARGET.search(attributes)):
        if target[1].startswith("__cublas"):
            return "product"
        if target[1].startswith("__cudnn$conv"):
            return "convolution"
    return None


def _operand(text: str, dtypes: dict[str, str]) -> str:
    """Return the dtype of an operand, which is written out or that of a value above."""
    written = _DTYPE.search(text)
    return written[1] if written else dtypes.get(text.strip().split(" ")[-1].lstrip("%"), "")


def _place(attributes: str) -> str:
    """Return the path of names from the model down to an operation, without what JAX puts around it."""
    found = _PLACE.search(attributes)
    return re.sub(r"^jit\(\w+\)/", "", found[1]) if found else ""


def counted(found: list[Operation]) -> Counter[tuple[str, str, str]]:
    """Return how many operations there are of each kind, operands and result."""
    return Counter(operation[:3] for operation in found)
