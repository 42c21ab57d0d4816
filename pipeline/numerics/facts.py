"""Name what the numerics stage looks at, and say what it found in sentences. Nothing here needs an engine."""

import contextlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pipeline.numbers import listed, number
from pipeline.study.variant import PolicyName

KERAS_POLICIES: tuple[PolicyName, ...] = tuple(policy for policy in get_args(PolicyName) if policy != "float8")
DTYPES = ("float32", "float16", "bfloat16")  # the first of which is the reference
TWICE = (64, 4096)  # widths of the dense model, of which twice as many units are counted
NO_GROWTH = -1  # in place of a number of steps
Value = float | int | str | bool


class Fact(NamedTuple):
    """The words of a fact: the beginning of its sentence, how it goes on from the value, the word before its place.

    `known` has the words of some values. Any other value is put into `other`.
    """

    subject: str
    other: str = "{}"
    known: Mapping[Value, str] = MappingProxyType({})
    where: str = ""
    place: str = ""

    def says(self, value: Value) -> str:
        """Return how the sentence goes on; numbers of facts are texts, too."""
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value)
        return self.known.get(value) or self.other.format(number(value))


def _either(subject: str, yes: str, no: str, where: str = "") -> Fact:
    return Fact(subject, known={True: yes, False: no}, where=where)


def _in_each(places: Iterable[str], where: str, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the facts of each place, under their names with that of the place behind."""
    return {
        f"{name}.{place}": fact._replace(where=where, place=place) for name, fact in facts.items() for place in places
    }


# Without TensorFlow there are none of these; a study of `numerics: facts` lacks the second anyway.
NOT_EVERYWHERE = frozenset({"notebook_split.num_trained_on", "notebook_split.same_after_restart"})
_BY_TYPE = {
    "square_of_256": Fact("256² is"),
    "square_of_1e-05": Fact("(10⁻⁵)² is", known={0.0: "zero"}),
    "smallest_square_is_zero": _either("(10⁻⁵)² is", "zero", "not zero"),
    "rounded_4e-08": Fact("4 × 10⁻⁸ becomes", known={0.0: "zero"}),
    "rounded_65519": Fact("65,519 becomes"),
    "softmax_of_minus_20_is_zero": _either("the softmax of 0 and −20 has a second part that is", "zero", "not zero"),
    "bytes_per_value": Fact("a value takes", "{} bytes"),
    "largest": Fact("the largest value is"),
}
_BY_POLICY = {
    "compute_dtype": Fact("the arithmetic is", "in {}"),
    "variable_dtype": Fact("variables are kept", "in {}"),
    "output_dtype": Fact("the output is"),
    "input_dtype": Fact("the input is"),
    "hidden_dtype": Fact("the output of a hidden layer is"),
    "softmax_dtype": Fact("a softmax without a dtype of its own returns"),
    "default_loss_scale": Fact("the loss scale by default is", known={"none": "absent"}),
}
_OF_NO_BENCHMARK = {
    **_in_each(DTYPES[1:], "for", {"products_accumulate_in": Fact("a matrix product adds up", "in {}")}),
    **_in_each(DTYPES, "in", _BY_TYPE),
    **_in_each(KERAS_POLICIES, "under", _BY_POLICY),
    "loss_scale.start": Fact("the loss scale", "starts at {}"),
    "loss_scale.growth_steps": Fact(
        "the loss scale", "grows after {} good steps", {NO_GROWTH: "does not grow as Keras says"}
    ),
    "loss_scale.growth_factor": Fact(
        "the loss scale", "is multiplied by {} when it grows", {2.0: "doubles when it grows"}
    ),
    "loss_scale.factor_at_overflow": Fact(
        "the loss scale", "is multiplied by {} at an overflow", {0.5: "halves at an overflow"}
    ),
    "loss_scale.overflow_is_skipped": _either(
        "a step with gradients that are not finite", "is skipped", "is not skipped"
    ),
    "float32_parameters_in_500_kilobytes": Fact("500 kB hold", "{} float32 parameters"),
    "notebook_split.same_after_restart": _either(
        "by the notebook's seed another process", "makes the same split", "makes another split"
    ),
    "notebook_split.num_trained_on": Fact(
        "of the notebook's 10,000 validation examples", "{} are trained on", {0.0: "none are trained on"}
    ),
    **{
        f"parameters_of_twice_the_units.{units}": Fact(
            f"with {number(2 * units)} units for {number(units)} a network has", "{} times the parameters"
        )
        for units in TWICE
    },
}
_OF_FLOAT32 = "bytes of those under float32"
_OF_BENCHMARK = {  # whose name stands between the braces
    **{
        f"weights_ratio.{{}}.{policy}": Fact(
            f"the weights under {policy} take",
            f"{{}} times the {_OF_FLOAT32}",
            {0.5: f"half the {_OF_FLOAT32}", 1.0: f"all the {_OF_FLOAT32}"},
            "in",
        )
        for policy in KERAS_POLICIES
    },
    "gradients.{}.some_flushed": _either(
        "", "some gradients are too small for float16", "no gradient is too small for float16", "in"
    ),
    "gradients.{}.forward_rarely_flushed": _either(
        "in a forward pass",
        "less than 1 % of the values are too small for float16",
        "1 % of the values or more are too small",
        "in",
    ),
    "gradients.{}.fewer_flushed_when_scaled": _either(
        "",
        "fewer gradients are flushed to zero",
        "no fewer gradients are flushed to zero",
        "once the loss is scaled in",
    ),
}


def facts_of(benchmarks: Iterable[str]) -> dict[str, Fact]:
    """Return the words of every name under `facts` in results/numerics.json, for a study with these benchmarks."""
    return _OF_NO_BENCHMARK | {
        name.format(benchmark): fact._replace(place=benchmark)
        for benchmark in benchmarks
        for name, fact in _OF_BENCHMARK.items()
    }


def is_measured(fact: str) -> bool:
    """Tell whether arithmetic that ran decided a fact; formats, shapes and Keras's rules decide the others."""
    return fact.startswith(("gradients.", "products_accumulate_in."))


def describe_facts(values: Mapping[str, Value]) -> str:
    """Put facts in sentences, as in "256² is infinite in float16, 65,536 in bfloat16 and float32"."""
    words = facts_of(name.split(".")[1] for name in values if name.count(".") == 2)
    subjects: dict[str, dict[tuple[str, str], list[str]]] = {}
    for name, value in values.items():
        told = words[name]
        places = subjects.setdefault(told.subject, {}).setdefault((told.says(value), told.where), [])
        places += [told.place] if told.place else []
    sentences = []
    for subject, clauses in subjects.items():
        parts = [f"{says} {where} {listed(places)}" if places else says for (says, where), places in clauses.items()]
        joined = ", ".join(parts) if any(clauses.values()) else listed(parts)
        sentences.append(f"{subject} {joined}".strip())
    return "; ".join(sentences)


# What an experiment gives at each try, and its unit; a benchmark may follow the name.
SAMPLES = {
    "numpy_float16_speedup": ("the speed of NumPy's arithmetic in float16 beside float32", "×"),
    "notebook_split_gain": ("the validation accuracy by the notebook's split less that by a clean one", " pp"),
    "skipped_steps": ("the number of the first ten steps that the loss scale skips", ""),
}


def sample_names(benchmarks: Iterable[str]) -> set[str]:
    """Return every name that `samples` in results/numerics.json may have; what could not be tried is left out."""
    return {"numpy_float16_speedup", "notebook_split_gain"} | {f"skipped_steps.{name}" for name in benchmarks}


class OptimizerTrial(NamedTuple):
    """Try an optimizer under a policy; an epsilon or a beta_2 other than Keras's own may repair it.

    `loss_scale` is a fixed one, or `dynamic`; None is whatever Keras takes by itself.
    """

    name: str
    policy: PolicyName
    optimizer: str
    options: dict[str, float]
    loss_scale: float | Literal["dynamic"] | None = None


class TrainingSize(NamedTuple):
    """How a dense network is trained: so little that all trials together take a minute."""

    units: int
    num_examples: int
    batch_size: int
    num_epochs: int

    def __str__(self) -> str:
        num_steps = self.num_epochs * self.num_examples // self.batch_size
        return f"a dense network of {self.units} units, {num_steps} steps of {self.batch_size} examples"


TRIAL_SIZE = TrainingSize(64, 4000, 32, 2)
SHORTFALL = 0.05  # a trial fails that ends more than this below its float32 twin
FIXED_SCALES = (1e-6, 1, 2**5, 2**10, 2**15, 2**20)
TRIALS = (
    OptimizerTrial("adam.float16", "float16", "adam", {}),
    OptimizerTrial("adam_dynamic.float16", "float16", "adam", {}, "dynamic"),
    OptimizerTrial("adam_epsilon_1e-3.float16", "float16", "adam", {"epsilon": 1e-3}),
    OptimizerTrial("adam.bfloat16", "bfloat16", "adam", {}),
    OptimizerTrial("adam_beta_2_0.99.bfloat16", "bfloat16", "adam", {"beta_2": 0.99}),
    OptimizerTrial("adam.mixed_float16", "mixed_float16", "adam", {}),
    OptimizerTrial("rmsprop.float16", "float16", "rmsprop", {}),
    OptimizerTrial("rmsprop.bfloat16", "bfloat16", "rmsprop", {}),
    *(
        OptimizerTrial(f"rmsprop_fixed_{scale}.mixed_float16", "mixed_float16", "rmsprop", {}, float(scale))
        for scale in FIXED_SCALES
    ),
)
