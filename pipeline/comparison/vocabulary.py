"""The words that readers see in place of a key: outcomes, quantities, a recipe's settings, facts and trials.

Nothing here is measured or judged. A name that a study gives, of a benchmark or a variant, stays as it is.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pipeline.numerics.facts import TRIALS
from pipeline.statistics.intervals import Mean

Value = float | int | str | bool

# How a run ended, as in "3 of 6 runs …".
OUTCOMES = {
    "completed": "completed",
    "diverged": "diverged",
    "out_of_memory": "ran out of memory",
    "too_slow": "took too long",
}
# What one run gave.
QUANTITIES = {
    "test_accuracy": "test accuracy",
    "test_loss": "test loss",
    "validation_accuracy": "validation accuracy",
}
# What an experiment of the numerics stage gave at each try, with its unit; a benchmark may follow the name.
SAMPLES = {
    "numpy_float16_speedup": ("the speed of NumPy's arithmetic in float16 beside float32", "×"),
    "notebook_split_gain": ("the validation accuracy by the notebook's split less that by a clean one", " pp"),
    "skipped_steps": ("the number of first steps that the loss scale skips", ""),
}
# A benchmark's settings by their key path, as in "the … is 64 in this study, 4,096 in the source".
SETTING_NAMES = {
    "augmentation": "augmentation",
    "batch_size": "batch size",
    "dataset": "data set",
    "evaluation_batch_size": "batch size of evaluation",
    "image_size": "width of an image",
    "learning_rate_rule": "rule of the learning rate",
    "learning_rate_rule.decay": "decay of the learning rate",
    "learning_rate_rule.num_warmup_epochs": "number of epochs in which the learning rate rises",
    "learning_rate_rule.scaling": "scaling of the learning rate with the batch",
    "metrics": "list of further metrics",
    "model": "model",
    "model.batch_norm_momentum": "momentum of batch normalisation",
    "model.depth": "factor of the model's depth",
    "model.name": "model",
    "model.number": "EfficientNet's number",
    "model.source": "model's source file",
    "model.squeeze_excite": "kind of squeeze and excitation",
    "model.units": "width of the dense layers",
    "model.width": "factor of the model's width",
    "num_epochs": "number of epochs",
    "optimizer": "optimizer",
    "optimizer.arguments": "list of the optimizer's arguments",
    "optimizer.learning_rate": "learning rate",
    "optimizer.name": "optimizer",
    "split": "split of the data",
    "split.num_train_examples": "number of training images",
    "split.num_validation_examples": "number of validation images",
    "split.shuffle_seed": "seed of the split",
    "steps_per_epoch": "number of steps an epoch",
    "steps_per_execution": "number of steps a call",
}
OPTIMIZERS = {
    "adadelta": "Adadelta",
    "adafactor": "Adafactor",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "adamax": "Adamax",
    "adamw": "AdamW",
    "ftrl": "FTRL",
    "lamb": "LAMB",
    "lion": "Lion",
    "nadam": "Nadam",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
}
METRIC_NAMES = {"top_5_accuracy": "top-5 accuracy", "macro_f1": "macro F₁", "balanced_accuracy": "balanced accuracy"}
ARGUMENTS = {"beta_1": "β₁", "beta_2": "β₂"}
CPU_FEATURE_NAMES = {
    "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16",
    "amx_bf16": "AMX-BF16",
    "amx_fp16": "AMX-FP16",
}


def plain(key: str) -> str:
    """Return a key of which no table here knows, an augmentation's or an argument's, with spaces in it."""
    known = OUTCOMES | OPTIMIZERS | METRIC_NAMES | ARGUMENTS | CPU_FEATURE_NAMES
    return known.get(key, key.replace("_", " "))


def describe_setting(path: str, ours: Any, theirs: Any) -> str:
    return f"the {SETTING_NAMES[path]} is {number(ours)} in this study, {number(theirs)} in the source"


def describe_trial(name: str) -> str:
    """Name the optimizer, as in "Adam with epsilon 0.001 in float16"."""
    trial = next(trial for trial in TRIALS if trial.name == name)
    scale = {None: "", "dynamic": " with a dynamic loss scale"}.get(
        trial.loss_scale, f" with a fixed loss scale of {number(trial.loss_scale)}"
    )
    return f"{describe_optimizer(trial.optimizer, trial.options)}{scale} in {trial.policy}"


def describe_sample(name: str, average: Mean, num_tries: int) -> str:
    """Tell the mean of an experiment, as in "… is 0.21× [0.19, 0.23], 9 tries"."""
    family, _, benchmark = name.partition(".")
    subject, unit = SAMPLES[family]
    where = f" of {benchmark}" if benchmark else ""
    interval = "(no interval)" if average.low is None else f"[{average.low:.3g}, {average.high:.3g}]"
    told = f"{subject}{where} is {average.mean:.3g}{unit} {interval}, {num_tries} tries"
    return told.replace("-", "−").replace("[−0, 0]", "[0, 0]")


def describe_optimizer(name: str, options: Mapping[str, Any]) -> str:
    chosen = listed(f"{plain(option)} {number(value)}" for option, value in options.items())
    return OPTIMIZERS[name] + (f" with {chosen}" if chosen else "")


def listed(words: Iterable[str]) -> str:
    """Join words in a row, as in "a, b and c"."""
    *rest, last = list(words) or [""]
    return f"{', '.join(rest)} and {last}" if rest else last


def number(value: Any) -> str:
    """Write a number as it is read: "65,536", "infinite" or "1.00 × 10⁻¹⁰", also from text; words stay."""
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "on", False: "off"}[value]
    try:
        size = abs(float(value))
    except (TypeError, ValueError):
        return str(value)
    if not math.isfinite(size):
        return "infinite" if math.isinf(size) else "not a number"
    if size == 0 or 1e-4 <= size < 1e9:
        return f"{float(value):,.7g}".replace("-", "−")
    mantissa, exponent = f"{float(value):.2e}".split("e")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} × 10{power}".replace("-", "−")


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
        return Fact(f"with {twice} units for {number(rest)} a network has", lambda by: f"{number(by)} times the parameters")
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
