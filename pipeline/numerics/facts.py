"""Name the facts of the numerics stage, for code that asks about them without an engine."""

from collections.abc import Iterable
from typing import NamedTuple, get_args

from pipeline.study.variant import PolicyName

POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
TYPES = ("float32", "float16", "bfloat16")


class OptimizerTrial(NamedTuple):
    """Try an optimizer under a policy; an epsilon or a beta_2 other than Keras's own may repair it."""

    name: str
    policy: PolicyName
    optimizer: str
    options: dict[str, float]


TRIALS = (
    OptimizerTrial("adam.float16", "float16", "adam", {}),
    OptimizerTrial("adam_epsilon_1e-3.float16", "float16", "adam", {"epsilon": 1e-3}),
    OptimizerTrial("adam.bfloat16", "bfloat16", "adam", {}),
    OptimizerTrial("adam_beta_2_0.99.bfloat16", "bfloat16", "adam", {"beta_2": 0.99}),
    OptimizerTrial("adam.mixed_float16", "mixed_float16", "adam", {}),
    OptimizerTrial("rmsprop.float16", "float16", "rmsprop", {}),
    OptimizerTrial("rmsprop.bfloat16", "bfloat16", "rmsprop", {}),
)


def fact_names(benchmarks: Iterable[str]) -> set[str]:
    """Return every name under `facts` in results/numerics.json, for a study with these benchmarks."""
    by_type = ("square_of_256", "square_of_1e-05", "smallest_square_is_zero", "bytes_per_value", "largest")
    by_policy = ("compute_dtype", "variable_dtype", "output_dtype", "default_loss_scale")
    loss_scale = ("start", "growth_steps", "growth_factor", "factor_at_overflow", "overflow_is_skipped")
    names = {f"{name}.{dtype}" for name in by_type for dtype in TYPES}
    names |= {f"{name}.{policy}" for name in by_policy for policy in POLICIES}
    names |= {f"loss_scale.{name}" for name in loss_scale} | {"float32_parameters_in_500_kilobytes"}
    for benchmark in benchmarks:
        names |= {f"weights_ratio.{benchmark}.{policy}" for policy in POLICIES}
        names |= {f"gradients.{benchmark}.{name}" for name in ("some_flushed", "fewer_flushed_when_scaled")}
    return names
