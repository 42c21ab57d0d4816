"""Name the facts, samples and trials of results/numerics.json. Nothing here needs an engine."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from pipeline.study.policies import POLICIES

KERAS_POLICIES = [name for name, policy in POLICIES.items() if policy.keras == name]
DTYPES = ("float32", "float16", "bfloat16")  # the first is the reference
TWICE = (64, 4096)  # the dense model with these numbers of units is compared with one with twice as many
GROWTH_STEPS = 2000  # Keras doubles its loss scale after this many steps without an overflow
NO_GROWTH = -1  # stands for an unknown number of steps
Value = float | int | str | bool


# Kinds of facts: some describe a dtype, some a policy, others neither. A fact's name joins the kind and the dtype or
# policy, as in `square_of_256.float16`.
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
    """Return every name that `facts` in results/numerics.json may have, for a study with these benchmarks."""
    found = {f"{kind}.{dtype}" for kind in _BY_TYPE for dtype in DTYPES}
    found |= {f"products_accumulate_in.{dtype}" for dtype in DTYPES[1:]}
    found |= {f"{kind}.{policy}" for kind in _BY_POLICY for policy in KERAS_POLICIES}
    found |= {*_EVERYWHERE, *(f"parameters_of_twice_the_units.{units}" for units in TWICE)}
    for name in benchmarks:
        found.add(f"weights_ratio.{name}.float16")
        found |= {f"gradients.{name}.{kind}" for kind in _OF_GRADIENTS}
    return found


def is_measured(fact: str) -> bool:
    """Return whether the machine or the data decide a fact. Formats, shapes and Keras's rules decide all others."""
    return fact.startswith(("gradients.", "products_accumulate_in."))


# The unit of each experiment's samples. In the file, a benchmark's name may follow: `skipped_steps.mnist`.
SAMPLES = {"numpy_float16_speedup": "×", "notebook_split_gain": " points", "skipped_steps": ""}


def sample_names(benchmarks: Iterable[str]) -> set[str]:
    """Return every name that `samples` in results/numerics.json may have, for a study with these benchmarks."""
    return {"numpy_float16_speedup", "notebook_split_gain"} | {f"skipped_steps.{name}" for name in benchmarks}


class OptimizerTrial(NamedTuple):
    """Describe a trial: a short training with an optimizer under a policy.

    `options` are arguments of the optimizer, such as a larger epsilon. `loss_scale` is a fixed value or `dynamic`. None
    leaves the choice to Keras.
    """

    name: str
    policy: str
    optimizer: str
    options: dict[str, float]
    loss_scale: float | Literal["dynamic"] | None = None


class TrainingSize(NamedTuple):
    """Give the sizes of a dense network and of its training."""

    units: int
    num_examples: int
    batch_size: int
    num_epochs: int


TRIAL_SIZE = TrainingSize(64, 4000, 32, 2)  # all trials together then take half a minute
NUM_SCORED = 2000  # validation examples; an accuracy's standard error is then about one percentage point
SHORTFALL = 0.05  # a trial fails if its accuracy is lower than its float32 twin's by more than this
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
