"""Facts of the numerics stage in sentences."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pipeline.comparison.vocabulary import Value, listed
from pipeline.numbers import number


class Fact(NamedTuple):
    """The words of a fact: the beginning of its sentence, how it goes on from the value, the word before its place."""

    subject: str
    says: Callable[[Value], str]
    where: str = ""
    place: str = ""


def _either(yes: str, no: str) -> Callable[[Value], str]:
    return lambda value: yes if value else no


def _times(factor: Value, words: Mapping[float, str]) -> str:
    return words.get(float(factor), f"is multiplied by {number(factor)}")


_BY_TYPE = {
    "square_of_256": Fact("256² is", number, "in"),
    "square_of_1e-05": Fact("(10⁻⁵)² is", lambda value: "zero" if float(value) == 0 else number(value), "in"),
    "smallest_square_is_zero": Fact("(10⁻⁵)² is", _either("zero", "not zero"), "in"),
    "rounded_4e-08": Fact("4 × 10⁻⁸ becomes", lambda value: "zero" if float(value) == 0 else number(value), "in"),
    "rounded_65519": Fact("65,519 becomes", number, "in"),
    "softmax_of_minus_20_is_zero": Fact(
        "the softmax of 0 and −20 has a second part that is", _either("zero", "not zero"), "in"
    ),
    "bytes_per_value": Fact("a value takes", lambda value: f"{number(value)} bytes", "in"),
    "largest": Fact("the largest value is", number, "in"),
}
_BY_POLICY = {
    "compute_dtype": Fact("the arithmetic is", lambda dtype: f"in {dtype}", "under"),
    "variable_dtype": Fact("variables are kept", lambda dtype: f"in {dtype}", "under"),
    "output_dtype": Fact("the output is", str, "under"),
    "input_dtype": Fact("the input is", str, "under"),
    "hidden_dtype": Fact("the output of a hidden layer is", str, "under"),
    "softmax_dtype": Fact("a softmax without a dtype of its own returns", str, "under"),
    "default_loss_scale": Fact(
        "unless asked for, the loss scale is", lambda mode: "absent" if mode == "none" else str(mode), "under"
    ),
}
_LOSS_SCALE = {
    "start": Fact("the loss scale", lambda value: f"starts at {number(value)}"),
    "growth_steps": Fact(
        "the loss scale",
        lambda steps: f"grows after {number(steps)} good steps" if float(steps) > 0 else "does not grow as Keras says",
    ),
    "growth_factor": Fact("the loss scale", lambda by: f"{_times(by, {2: 'doubles'})} when it grows"),
    "factor_at_overflow": Fact("the loss scale", lambda by: f"{_times(by, {0.5: 'halves'})} at an overflow"),
    "overflow_is_skipped": Fact("a step with gradients that are not finite", _either("is skipped", "is not skipped")),
}
_WEIGHTS = Fact(
    "the weights under {policy} take",
    lambda share: (
        {0.5: "half the bytes", 1.0: "all the bytes"}.get(float(share), f"{number(share)} times the bytes")
        + " of those under float32"
    ),
    "in",
)
_GRADIENTS = {
    "some_flushed": Fact(
        "", _either("some gradients are too small for float16", "no gradient is too small for float16"), "in"
    ),
    "forward_rarely_flushed": Fact(
        "in a forward pass",
        _either("less than 1 % of the values are too small for float16", "1 % of the values or more are too small"),
        "in",
    ),
    "fewer_flushed_when_scaled": Fact(
        "",
        _either("fewer gradients are flushed to zero", "no fewer gradients are flushed to zero"),
        "once the loss is scaled in",
    ),
}


def fact(name: str) -> Fact:
    """Return the sentence of the fact of this name; `pipeline.numerics.facts.fact_names` lists the names."""
    family, _, rest = name.partition(".")
    if name == "float32_parameters_in_500_kilobytes":
        return Fact("500 kB hold", lambda count: f"{number(count)} float32 parameters")
    if family == "notebook_split":
        return Fact(
            "of the notebook's 10,000 validation examples",
            lambda count: f"{number(count) if float(count) else 'none'} are trained on",
        )
    if family == "parameters_of_twice_the_units":
        twice = number(2 * int(rest))
        return Fact(
            f"with {twice} units for {number(rest)} a network has", lambda by: f"{number(by)} times the parameters"
        )
    if family == "loss_scale":
        return _LOSS_SCALE[rest]
    if family == "weights_ratio":
        benchmark, _, policy = rest.rpartition(".")
        return _WEIGHTS._replace(subject=_WEIGHTS.subject.format(policy=policy), place=benchmark)
    if family == "gradients":
        benchmark, _, what = rest.rpartition(".")
        return _GRADIENTS[what]._replace(place=benchmark)
    return (_BY_TYPE | _BY_POLICY)[family]._replace(place=rest)


def describe_facts(values: Mapping[str, Value]) -> str:
    """Put facts in sentences, as in "256² is infinite in float16, 65,536 in bfloat16 and float32"."""
    subjects: dict[str, dict[tuple[str, str], list[str]]] = {}
    for name, value in values.items():
        told = fact(name)
        places = subjects.setdefault(told.subject, {}).setdefault((told.says(value), told.where), [])
        places += [told.place] if told.place else []
    sentences = []
    for subject, clauses in subjects.items():
        parts = [f"{says} {where} {listed(places)}" if places else says for (says, where), places in clauses.items()]
        joined = ", ".join(parts) if any(clauses.values()) else listed(parts)
        sentences.append(f"{subject} {joined}".strip())
    return "; ".join(sentences)
