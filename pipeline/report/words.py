"""Words that only the report has: what a variant sets."""

from pipeline.numbers import number
from pipeline.study.variant import Variant


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
