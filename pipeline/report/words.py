"""Words that only the report has: what a variant sets, and what a benchmark trains on what."""

import re
from collections.abc import Mapping

from pipeline.numbers import number, ranges, span
from pipeline.study.benchmark import Dense, Imported, ResNet9
from pipeline.study.schema import Study
from pipeline.study.variant import Variant

DATASETS = {
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "cifar100_quick": "CIFAR-100 (part)",
}
_NUMBER = re.compile(r"\d+")


def describe_variant(variant: Variant) -> str:
    """Tell what a variant sets, as in "mixed_float16, batch doubled, a fixed loss scale of 1,024"."""
    scale = variant.loss_scale
    scales = {"fixed": f"a fixed loss scale of {number(getattr(scale, 'value', 0))}", "none": "no loss scale"}
    told = {
        variant.policy: True,
        describe_multiple(variant.batch_multiplier, "batch"): variant.batch_multiplier != 1,
        describe_multiple(variant.epoch_multiplier, "epochs"): variant.epoch_multiplier != 1,
        describe_multiple(variant.learning_rate_multiplier, "learning rate"): variant.learning_rate_multiplier != 1,
        scales.get(scale.mode, "a dynamic loss scale"): scale
        != Variant(policy=variant.policy, batch_multiplier=1).loss_scale,
        "TF32 allowed": variant.tf32,
        "compiled by XLA": variant.xla,
        "a custom loop": variant.loop == "custom",
    }
    return ", ".join(words for words, is_told in told.items() if is_told)


def describe_multiple(factor: float, what: str) -> str:
    """Tell how much more of something there is, as in "batch doubled"."""
    return f"{what} doubled" if factor == 2 else f"{what} × {number(factor)}"


def in_brackets(words: str) -> str:
    """Put what a name goes on with into brackets, for a row of names, as in "mixed_float16 (batch doubled)"."""
    name, _, further = words.partition(", ")
    return f"{name} ({further})" if further else name


def describe_faults(faults: Mapping[int, str]) -> str:
    """Tell why times are left out, by seed, as in "seeds 0 to 29: other work took 52 to 82 % of the CPU time"."""
    alike: dict[str, list[int]] = {}
    for seed, fault in faults.items():
        alike.setdefault(_NUMBER.sub("", fault), []).append(seed)
    told = []
    for seeds in alike.values():
        found = [int(each) for seed in seeds for each in _NUMBER.findall(faults[seed])]
        words = _NUMBER.sub(span(found) if found else "", faults[seeds[0]])
        told.append(f"seed{'s' * (len(seeds) > 1)} {ranges(seeds)}: {words}")
    return "; ".join(told) or "none"


def dataset_name(study: Study, benchmark: str) -> str:
    dataset = study.benchmarks[benchmark].dataset
    return DATASETS.get(dataset, dataset)


def benchmark_name(study: Study, benchmark: str) -> str:
    """Name a benchmark for people, as in "MNIST, dense network of 64 units"."""
    model, dataset = study.benchmarks[benchmark].model, dataset_name(study, benchmark)
    if isinstance(model, Dense):
        return f"{dataset}, dense network of {number(model.units)} units"
    if isinstance(model, ResNet9):
        return f"{dataset}, ResNet-9 of width {model.width}"
    if isinstance(model, Imported):
        return f"{dataset}, {model.function}"
    if model.depth and model.depth <= 0.25:  # no stage of the family repeats a block more than four times
        return f"{dataset}, small EfficientNet: seven blocks, where B0 has 16"
    scaled = "".join(f", {what} × {by:g}" for what, by in (("width", model.width), ("depth", model.depth)) if by)
    return f"{dataset}, EfficientNet-B{model.number}{scaled}"


def short_names(study: Study) -> dict[str, str]:
    """Name each benchmark by its data set alone, unless another one has the same."""
    names = {benchmark: benchmark_name(study, benchmark) for benchmark in study.benchmarks}
    short = {benchmark: name.partition(",")[0] for benchmark, name in names.items()}
    return {each: name if list(short.values()).count(name) == 1 else names[each] for each, name in short.items()}
