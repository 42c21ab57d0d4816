"""Name what the numerics stage examines. Nothing here needs an engine."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from pipeline.study.policies import POLICIES

KERAS_POLICIES = [name for name, policy in POLICIES.items() if policy.keras == name]
DTYPES = ("float32", "float16", "bfloat16")  # the first is the reference
TWICE = (64, 4096)  # widths at which the dense model is compared with one of twice the units
GROWTH_STEPS = 2000  # Keras doubles its loss scale after this many steps without an overflow
NO_GROWTH = -1  # in place of an unknown number of steps
Value = float | int | str | bool


# Kinds of facts, by what they describe. A fact's name joins its kind and what it describes: `square_of_256.float16`.
_BY_TYPE = (
    *("square_of_256", "square_of_1e-05", "smallest_square_is_zero", "rounded_4e-08", "rounded_65519"),
    *("softmax_of_minus_20_is_zero", "bytes_per_value", "largest"),
)
_BY_POLICY = (
    *("compute_dtype", "variable_dtype", "output_dtype", "input_dtype", "hidden_dtype", "softmax_dtype"),
    "default_loss_scale",
)
_EVERYWHERE = (
    *("loss_scale.start", "loss_scale.growth_steps", "loss_scale.growth_factor", "loss_scale.factor_at_overflow"),
    "loss_scale.overflow_is_skipped",
    *("notebook_split.same_after_restart", "notebook_split.num_trained_on"),
)
_OF_GRADIENTS = ("some_flushed", "forward_rarely_flushed", "fewer_flushed_when_scaled")


def fact_names(benchmarks: Iterable[str]) -> set[str]:
    """Return every name under `facts` in results/numerics.json, for a study with these benchmarks."""
    found = {f"{kind}.{dtype}" for kind in _BY_TYPE for dtype in DTYPES}
    found |= {f"products_accumulate_in.{dtype}" for dtype in DTYPES[1:]}
    found |= {f"{kind}.{policy}" for kind in _BY_POLICY for policy in KERAS_POLICIES}
    found |= {*_EVERYWHERE, *(f"parameters_of_twice_the_units.{units}" for units in TWICE)}
    for name in benchmarks:
        found.add(f"weights_ratio.{name}.float16")
        found |= {f"gradients.{name}.{kind}" for kind in _OF_GRADIENTS}
    return found


def is_measured(fact: str) -> bool:
    """Return whether a fact was measured. Formats, shapes and Keras's rules decide the others."""
    return fact.startswith(("gradients.", "products_accumulate_in."))


# The unit of each experiment's samples. A benchmark's name may follow the experiment's.
SAMPLES = {"numpy_float16_speedup": "×", "notebook_split_gain": " points", "skipped_steps": ""}


def sample_names(benchmarks: Iterable[str]) -> set[str]:
    """Return every name that `samples` in results/numerics.json may have. The file lacks experiments that can't run."""
    return {"numpy_float16_speedup", "notebook_split_gain"} | {f"skipped_steps.{name}" for name in benchmarks}


class OptimizerTrial(NamedTuple):
    """Describe a trial of an optimizer under a policy, perhaps repaired by an option such as another epsilon.

    `loss_scale` is a fixed value or `dynamic`. None leaves the choice to Keras.
    """

    name: str
    policy: str
    optimizer: str
    options: dict[str, float]
    loss_scale: float | Literal["dynamic"] | None = None


class TrainingSize(NamedTuple):
    """Say how a dense network is trained. All trials together take half a minute."""

    units: int
    num_examples: int
    batch_size: int
    num_epochs: int


TRIAL_SIZE = TrainingSize(64, 4000, 32, 2)
NUM_SCORED = 2000  # validation examples scored: a standard error of one percentage point
SHORTFALL = 0.05  # a trial fails if it ends more than this below its float32 twin
FIXED_SCALES = (1e-6, 1, 2**20)
TRIALS = (
    OptimizerTrial("adam.float16", "float16", "adam", {}),
    OptimizerTrial("adam_dynamic.float16", "float16", "adam", {}, "dynamic"),
    OptimizerTrial("adam_epsilon_1e-3.float16", "float16", "adam", {"epsilon": 1e-3}),
    OptimizerTrial("rmsprop.float16", "float16", "rmsprop", {}),
    *(
        OptimizerTrial(f"rmsprop_fixed_{scale}.mixed_float16", "mixed_float16", "rmsprop", {}, float(scale))
        for scale in FIXED_SCALES
    ),
)
