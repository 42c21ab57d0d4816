"""Name what the numerics stage looks at, and say what it found in sentences. Nothing here needs an engine."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from pipeline.numbers import listed, number
from pipeline.study.variant import PolicyName

POLICIES: tuple[PolicyName, ...] = tuple(policy for policy in get_args(PolicyName) if policy != "float8")
TYPES = ("float32", "float16", "bfloat16")
TWICE = (64, 4096)  # widths of the dense model, of which twice as many units are counted
Value = float | int | str | bool


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


def _or_zero(value: Value) -> str:
    return "zero" if float(value) == 0 else number(value)


_BY_TYPE = {
    "square_of_256": Fact("256² is", number, "in"),
    "square_of_1e-05": Fact("(10⁻⁵)² is", _or_zero, "in"),
    "smallest_square_is_zero": Fact("(10⁻⁵)² is", _either("zero", "not zero"), "in"),
    "rounded_4e-08": Fact("4 × 10⁻⁸ becomes", _or_zero, "in"),
    "rounded_65519": Fact("65,519 becomes", number, "in"),
    "softmax_of_minus_20_is_zero": Fact(
        "the softmax of 0 and −20 has a second part that is", _either("zero", "not zero"), "in"
    ),
    "bytes_per_value": Fact("a value takes", lambda value: f"{number(value)} bytes", "in"),
    "largest": Fact("the largest value is", number, "in"),
}
_ACCUMULATION = {
    f"products_accumulate_in.{dtype}": Fact("a matrix product adds up", lambda of: f"in {of}", "for", dtype)
    for dtype in TYPES
    if dtype != "float32"
}
NOT_EVERYWHERE = frozenset({"notebook_split.same_after_restart"})  # a study of `numerics: facts` lacks it
_BY_POLICY = {
    "compute_dtype": Fact("the arithmetic is", lambda dtype: f"in {dtype}", "under"),
    "variable_dtype": Fact("variables are kept", lambda dtype: f"in {dtype}", "under"),
    "output_dtype": Fact("the output is", str, "under"),
    "input_dtype": Fact("the input is", str, "under"),
    "hidden_dtype": Fact("the output of a hidden layer is", str, "under"),
    "softmax_dtype": Fact("a softmax without a dtype of its own returns", str, "under"),
    "default_loss_scale": Fact(
        "the loss scale by default is", lambda mode: "absent" if mode == "none" else str(mode), "under"
    ),
}
_OF_NO_BENCHMARK = {
    **_ACCUMULATION,
    **{f"{name}.{dtype}": fact._replace(place=dtype) for name, fact in _BY_TYPE.items() for dtype in TYPES},
    **{f"{name}.{policy}": fact._replace(place=policy) for name, fact in _BY_POLICY.items() for policy in POLICIES},
    "loss_scale.start": Fact("the loss scale", lambda value: f"starts at {number(value)}"),
    "loss_scale.growth_steps": Fact(
        "the loss scale",
        lambda steps: f"grows after {number(steps)} good steps" if float(steps) > 0 else "does not grow as Keras says",
    ),
    "loss_scale.growth_factor": Fact("the loss scale", lambda by: f"{_times(by, {2: 'doubles'})} when it grows"),
    "loss_scale.factor_at_overflow": Fact("the loss scale", lambda by: f"{_times(by, {0.5: 'halves'})} at an overflow"),
    "loss_scale.overflow_is_skipped": Fact(
        "a step with gradients that are not finite", _either("is skipped", "is not skipped")
    ),
    "float32_parameters_in_500_kilobytes": Fact("500 kB hold", lambda count: f"{number(count)} float32 parameters"),
    "notebook_split.same_after_restart": Fact(
        "by the notebook's seed another process", _either("makes the same split", "makes another split")
    ),
    "notebook_split.num_trained_on": Fact(
        "of the notebook's 10,000 validation examples",
        lambda count: f"{number(count) if float(count) else 'none'} are trained on",
    ),
    **{
        f"parameters_of_twice_the_units.{units}": Fact(
            f"with {number(2 * units)} units for {number(units)} a network has",
            lambda by: f"{number(by)} times the parameters",
        )
        for units in TWICE
    },
}
_SHARES_OF_BYTES = {0.5: "half the bytes", 1.0: "all the bytes"}
_OF_BENCHMARK: dict[tuple[str, str], Fact] = {  # its name stands between the two parts
    **{
        ("weights_ratio", policy): Fact(
            f"the weights under {policy} take",
            lambda share: (
                _SHARES_OF_BYTES.get(float(share), f"{number(share)} times the bytes") + " of those under float32"
            ),
            "in",
        )
        for policy in POLICIES
    },
    ("gradients", "some_flushed"): Fact(
        "", _either("some gradients are too small for float16", "no gradient is too small for float16"), "in"
    ),
    ("gradients", "forward_rarely_flushed"): Fact(
        "in a forward pass",
        _either("less than 1 % of the values are too small for float16", "1 % of the values or more are too small"),
        "in",
    ),
    ("gradients", "fewer_flushed_when_scaled"): Fact(
        "",
        _either("fewer gradients are flushed to zero", "no fewer gradients are flushed to zero"),
        "once the loss is scaled in",
    ),
}


def facts_of(benchmarks: Iterable[str]) -> dict[str, Fact]:
    """Return the words of every name under `facts` in results/numerics.json, for a study with these benchmarks."""
    return _OF_NO_BENCHMARK | {
        f"{family}.{benchmark}.{rest}": fact._replace(place=benchmark)
        for benchmark in benchmarks
        for (family, rest), fact in _OF_BENCHMARK.items()
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
    "skipped_steps": ("the number of first steps that the loss scale skips", " steps"),
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


class TrialSize(NamedTuple):
    """The size of every trial: so small that all together take a minute."""

    units: int
    num_examples: int
    batch_size: int
    num_epochs: int

    def __str__(self) -> str:
        num_steps = self.num_epochs * self.num_examples // self.batch_size
        return f"a dense network of {self.units} units, {num_steps} steps of {self.batch_size} examples"


TRIAL_SIZE = TrialSize(64, 4000, 32, 2)
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
