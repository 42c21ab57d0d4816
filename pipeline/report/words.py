"""Words that only the report has: what a variant sets, and what a benchmark trains on what."""

from pipeline.numbers import number
from pipeline.study.benchmark import Dense, Imported, ResNet9
from pipeline.study.schema import Study
from pipeline.study.variant import Variant

DATASETS = {
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "cifar100_quick": "CIFAR-100 (part)",
}


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
        "compiled by XLA": variant.jit_compile,
        "a custom loop": variant.loop == "custom",
    }
    return ", ".join(words for words, is_told in told.items() if is_told)


def describe_multiple(factor: float, what: str) -> str:
    """Tell how much more of something there is, as in "batch doubled"."""
    return f"{what} doubled" if factor == 2 else f"{what} × {number(factor)}"


def benchmark_name(study: Study, benchmark: str) -> str:
    """Name a benchmark for people, as in "MNIST, dense network of 64 units"."""
    recipe = study.benchmarks[benchmark]
    model, dataset = recipe.model, DATASETS.get(recipe.dataset, recipe.dataset)
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
