"""Say statistics and keys in words, the same in verdicts, headlines and the report.

A name that a study gives, of a benchmark or a variant, stays as it is.
"""

import math
from typing import Any, get_args

from pipeline.comparison.schema import Pair
from pipeline.numbers import estimate, interval, listed, number
from pipeline.numerics.facts import SAMPLES, TRIALS
from pipeline.statistics.equivalence import MAX_SEEDS, PAIRED, Design, Equivalence, num_seeds_needed
from pipeline.statistics.intervals import Mean, Ratio
from pipeline.study.benchmark import OptimizerName

# How a run ended, as in "3 of 6 runs …".
OUTCOMES = {
    "completed": "completed",
    "diverged": "diverged",
    "out_of_memory": "ran out of memory",
    "too_slow": "took too long",
}
OPTIMIZERS: dict[str, str] = {name: name.capitalize() for name in get_args(OptimizerName)}
OPTIMIZERS |= {"adamw": "AdamW", "ftrl": "FTRL", "lamb": "LAMB", "rmsprop": "RMSprop", "sgd": "SGD"}
_OTHER_KEYS = {
    "beta_1": "β₁",
    "beta_2": "β₂",
    "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16",
    "amx_bf16": "AMX-BF16",
    "amx_fp16": "AMX-FP16",
}
# A benchmark's settings by their key path where the path itself would not say enough.
_SETTINGS = {
    "image_size": "width of an image in pixels",
    "learning_rate_rule.decay": "decay of the learning rate",
    "learning_rate_rule.scaling": "scaling of the learning rate with the batch",
    "model.batch_norm_momentum": "momentum of batch normalisation",
    "model.depth": "factor of the network's depth",
    "model.name": "model",
    "model.number": "EfficientNet's number",
    "model.units": "width of the dense layers",
    "model.width": "factor of the network's width",
    "num_epochs": "number of epochs",
    "optimizer.name": "optimizer",
    "split.num_train_examples": "number of training images",
    "split.num_validation_examples": "number of validation images",
}


def plain(key: str) -> str:
    """Return the word for a key, or the key with spaces in it."""
    return (OUTCOMES | OPTIMIZERS | _OTHER_KEYS).get(key, key.replace("_", " "))


def describe_setting(path: str, ours: Any, theirs: Any) -> str:
    """Set a recipe's value beside the source's, as in "the batch size is 64 in this study, 4,096 in the source"."""
    section, _, name = path.rpartition(".")
    words = _SETTINGS.get(path) or plain(name) + (f" of the {plain(section)}" if section else "")
    return f"the {words} is {number(ours)} in this study, {number(theirs)} in the source"


def describe_trial(name: str) -> str:
    """Name the optimizer, as in "Adam with epsilon 0.001 in float16"."""
    trial = next(trial for trial in TRIALS if trial.name == name)
    scale = ""
    if trial.loss_scale is not None:
        fixed = f"a fixed loss scale of {number(trial.loss_scale)}"
        scale = " with " + ("a dynamic loss scale" if trial.loss_scale == "dynamic" else fixed)
    options = listed(f"{plain(option)} {number(value)}" for option, value in trial.options.items())
    return f"{OPTIMIZERS[trial.optimizer]}{f' with {options}' if options else ''}{scale} in {trial.policy}"


def name_sample(name: str) -> str:
    """Tell what an experiment gives, as in "the number of the first ten steps that the loss scale skips in MNIST"."""
    family, _, benchmark = name.partition(".")
    return SAMPLES[family][0] + (f" in {benchmark}" if benchmark else "")


def describe_sample(name: str, average: Mean, num_tries: int) -> str:
    """Tell the mean of an experiment, as in "… is 0.21× [0.19, 0.23], in 9 tries"."""
    unit = SAMPLES[name.partition(".")[0]][1]
    if average.low is not None and average.low == average.high:
        return f"{name_sample(name)} is {average.mean:.3g}{unit} in each of {num_tries} tries"
    told = estimate(average.mean, average.low, average.high, ".2f" if unit == "×" else ".3g", unit)
    return f"{name_sample(name)} is {told}, in {num_tries} tries"


def count_seeds(num_seeds: int) -> str:
    return f"{num_seeds} seed{'s' * (num_seeds != 1)}"


def describe_ratio(ratio: Ratio, of: str = "") -> str:
    """Return a ratio as in "1.23× the speed of float32 [1.10, 1.38]"; words stand where there is no interval."""
    if ratio.ratio is None:
        return "not known"
    return " ".join(filter(None, (f"{ratio.ratio:.2f}×", of, interval(ratio.low, ratio.high, ".2f"))))


def describe_speedup(pair: Pair, with_validation: bool = False) -> str:
    """Return a pair's speedup in words, or its bound where the candidate's runs took too long to be timed."""
    if with_validation and pair.epoch_speedup.ratio is not None:
        return describe_ratio(pair.epoch_speedup, f"the speed of {pair.baseline}, validation included")
    if pair.speedup.ratio is None and pair.speedup_at_most is not None:
        return f"at least {math.floor(10 / pair.speedup_at_most) / 10:.1f} times slower than {pair.baseline}"
    return describe_ratio(pair.speedup, f"the speed of {pair.baseline}")


def describe_kernels(pair: Pair) -> str:
    """Name the kernels of both where they differ, as in "; mixed_float16 with kernels of Eigen, …"."""
    if pair.baseline_kernels == pair.candidate_kernels:
        return ""
    theirs, ours = (" and ".join(kernels) for kernels in (pair.baseline_kernels, pair.candidate_kernels))
    return f"; {pair.candidate} computed with kernels of {ours}, {pair.baseline} with those of {theirs}"


def describe_difference(pair: Pair) -> str:
    """Return the difference as in "−0.12 pp [−0.40, +0.16]"; words stand where there is no interval."""
    difference = pair.accuracy_difference_pp
    return estimate(difference.mean, difference.low95, difference.high95, "+.2f", " pp")


def describe_plan(test: Equivalence, design: Design = PAIRED) -> str:
    """Tell what would decide, as in "12 seeds would, if they go on as these"."""
    if test.num_seeds_needed is None:
        told = f"if the true difference is the mean found, near the margin, not even {MAX_SEEDS:,} seeds would tell"
        spread, margin, num_candidates = test.spread_pp, test.margin_pp, test.num_candidates
        if_none = num_seeds_needed(spread, margin, num_candidates, design=design) if spread else None
        return f"{told}; if it is zero, {count_seeds(if_none)} would" if if_none else told
    return f"{count_seeds(test.num_seeds_needed)} would tell, if they go on as these"


def failed_runs(pair: Pair) -> str:
    """Name the runs a comparison lacks, as in "; mixed_float16 diverged at 1 seed"; empty where none is."""
    return "".join(
        f"; {name} {OUTCOMES[outcome]} at {count_seeds(count)}"
        for name, failures in ((pair.candidate, pair.failures), (pair.baseline, pair.baseline_failures))
        for outcome, count in failures.items()
    )
