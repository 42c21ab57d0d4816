"""Name the facts of the numerics stage, for code that asks about them without an engine."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from pipeline.study.variant import PolicyName

POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
TYPES = ("float32", "float16", "bfloat16")


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
FIXED_SCALES = (1, 2**5, 2**10, 2**15, 2**20)
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

GRADIENT_FACTS = ("some_flushed", "fewer_flushed_when_scaled", "forward_rarely_flushed")
TWICE = (64, 4096)  # widths of the dense model, of which twice as many units are counted


def fact_names(benchmarks: Iterable[str]) -> set[str]:
    """Return every name under `facts` in results/numerics.json, for a study with these benchmarks."""
    by_type = ["square_of_256", "square_of_1e-05", "smallest_square_is_zero", "bytes_per_value", "largest"]
    by_type += ["rounded_4e-08", "rounded_65519", "softmax_of_minus_20_is_zero"]
    by_policy = ["compute_dtype", "variable_dtype", "output_dtype", "default_loss_scale"]
    by_policy += ["input_dtype", "hidden_dtype", "softmax_dtype"]
    loss_scale = ("start", "growth_steps", "growth_factor", "factor_at_overflow", "overflow_is_skipped")
    names = {f"{name}.{dtype}" for name in by_type for dtype in TYPES}
    names |= {f"{name}.{policy}" for name in by_policy for policy in POLICIES}
    names |= {f"loss_scale.{name}" for name in loss_scale} | {"float32_parameters_in_500_kilobytes"}
    names |= {f"parameters_of_twice_the_units.{units}" for units in TWICE} | {"notebook_split.num_trained_on"}
    for benchmark in benchmarks:
        names |= {f"weights_ratio.{benchmark}.{policy}" for policy in POLICIES}
        names |= {f"gradients.{benchmark}.{name}" for name in GRADIENT_FACTS}
    return names


def is_measured(fact: str) -> bool:
    """Tell whether a training step on data decided a fact; formats, shapes and Keras's rules decide the others."""
    return fact.startswith("gradients.")


def sample_names(benchmarks: Iterable[str]) -> set[str]:
    """Return every name that `samples` in results/numerics.json may have; what could not be tried is left out."""
    return {"numpy_float16_speedup", "notebook_split_gain"} | {f"skipped_steps.{name}" for name in benchmarks}
