"""Name variants and benchmarks for readers, with the templates under `name` in `sentences.yaml`."""

from collections.abc import Mapping

from pipeline.study.policies import POLICIES
from pipeline.study.schema import Study
from pipeline.study.variant import Variant
from pipeline.words.sentences import Said, sentence


def variant_name(variant: Variant, with_batch: bool = False) -> str:
    """Name a variant by its policy and any unusual settings, as in "mixed_float16 (fixed loss scale 1,024)"."""
    usual = Variant(policy=variant.policy, batch_multiplier=1).loss_scale
    scale = variant.loss_scale
    numbers = variant.model_dump() | {
        "label": POLICIES[variant.policy].label,
        "scale": None if scale == usual else scale.mode,
        "scale_value": getattr(scale, "value", None),
        "with_batch": with_batch,
    }
    return sentence(Said("name.variant", numbers))


def benchmark_names(study: Study) -> Mapping[str, str]:
    """Return a name for readers for each benchmark, as in "MNIST, dense network of 64 units".

    If several benchmarks would have the same name, add the batch size. If that does not help, add the benchmark's key.
    """

    def names(**more: bool) -> dict[str, str]:
        return {
            key: sentence(
                Said("name.benchmark", benchmark.model_dump() | {"model_title": benchmark.model.title} | more)
            )
            for key, benchmark in study.benchmarks.items()
        }

    short, with_batch = names(), names(with_batch=True)
    found = {key: with_batch[key] if is_shared(name, short) else name for key, name in short.items()}
    return {key: f"{name} ({key})" if is_shared(name, found) else name for key, name in found.items()}


def is_shared(name: str, names: Mapping[str, str]) -> bool:
    return list(names.values()).count(name) > 1
