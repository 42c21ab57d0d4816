"""The words that readers see in place of a key: outcomes, quantities, a recipe's settings, facts and trials.

Nothing here is measured or judged. A name that a study gives, of a benchmark or a variant, stays as it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.numbers import estimate, number
from pipeline.numerics.facts import TRIALS
from pipeline.statistics.intervals import Mean
from pipeline.study.variant import Variant

Value = float | int | str | bool

# How a run ended, as in "3 of 6 runs …".
OUTCOMES = {
    "completed": "completed",
    "diverged": "diverged",
    "out_of_memory": "ran out of memory",
    "too_slow": "took too long",
}
# What an outcome contradicts: a run that diverged found its memory, and one that was ended for its time tells nothing.
CONTRARY = {
    "completed": ("out_of_memory",),
    "diverged": ("completed",),
    "out_of_memory": ("completed", "diverged"),
    "too_slow": ("completed",),
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
    "skipped_steps": ("the number of first steps that the loss scale skips", " steps"),
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
ARGUMENTS = {"beta_1": "β₁", "beta_2": "β₂"}
CPU_FEATURE_NAMES = {
    "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16",
    "amx_bf16": "AMX-BF16",
    "amx_fp16": "AMX-FP16",
}


def plain(key: str) -> str:
    """Return a key of which no table here knows, an augmentation's or an argument's, with spaces in it."""
    known = OUTCOMES | OPTIMIZERS | ARGUMENTS | CPU_FEATURE_NAMES
    return known.get(key, key.replace("_", " "))


def describe_setting(path: str, ours: Any, theirs: Any, where: str = "in this study") -> str:
    return f"the {SETTING_NAMES[path]} is {number(ours)} {where}, {number(theirs)} in the source"


def describe_variant(variant: Variant) -> str:
    """Tell what a variant sets, as in "mixed_float16, double the batch, a fixed loss scale of 1,024"."""

    def times(factor: float, what: str) -> str:
        return f"double the {what}" if factor == 2 else f"{number(factor)} times the {what}"

    scale = variant.loss_scale
    scales = {"fixed": f"a fixed loss scale of {number(getattr(scale, 'value', 0))}", "none": "no loss scale"}
    told = {
        variant.policy: True,
        times(variant.batch_multiplier, "batch"): variant.batch_multiplier != 1,
        times(variant.epoch_multiplier, "epochs"): variant.epoch_multiplier != 1,
        times(variant.learning_rate_multiplier, "learning rate"): variant.learning_rate_multiplier != 1,
        scales.get(scale.mode, "a dynamic loss scale"): scale
        != Variant(policy=variant.policy, batch_multiplier=1).loss_scale,
        "TF32 allowed": variant.tf32,
        "compiled by XLA": variant.jit_compile,
        "a custom loop": variant.loop == "custom",
    }
    return ", ".join(words for words, is_told in told.items() if is_told)


def describe_trial(name: str) -> str:
    """Name the optimizer, as in "Adam with epsilon 0.001 in float16"."""
    trial = next(trial for trial in TRIALS if trial.name == name)
    scale = ""
    if trial.loss_scale is not None:
        fixed = f"a fixed loss scale of {number(trial.loss_scale)}"
        scale = " with " + ("a dynamic loss scale" if trial.loss_scale == "dynamic" else fixed)
    return f"{describe_optimizer(trial.optimizer, trial.options)}{scale} in {trial.policy}"


def describe_sample(name: str, average: Mean, num_tries: int) -> str:
    """Tell the mean of an experiment, as in "… is 0.21× [0.19, 0.23], 9 tries"."""
    family, _, benchmark = name.partition(".")
    subject, unit = SAMPLES[family]
    where = f" in {benchmark}" if benchmark else ""
    if average.low is not None and average.low == average.high:
        return f"{subject}{where} is {average.mean:.3g}{unit} in each of {num_tries} tries"
    told = estimate(average.mean, average.low, average.high, ".3g", unit)
    return f"{subject}{where} is {told}, {num_tries} tries"


def describe_optimizer(name: str, options: Mapping[str, Any]) -> str:
    chosen = listed(f"{plain(option)} {number(value)}" for option, value in options.items())
    return OPTIMIZERS[name] + (f" with {chosen}" if chosen else "")


def listed(words: Iterable[str]) -> str:
    """Join words in a row, as in "a, b and c"."""
    *rest, last = list(words) or [""]
    return f"{', '.join(rest)} and {last}" if rest else last
