"""Define a variant: a choice of precision policy, batch size, loss scale, XLA and training loop."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from pipeline.study.configuration import Name, PositiveFloat, PositiveInt, Section, unknown_name
from pipeline.study.policies import FORMATS, POLICIES

DEFAULT_POLICY = "tf32"  # under which TPUs, and GPUs that have TF32, compute float32 by default
# The policies that compute in fewer bits than float32 and keep float32 variables.
MIXED = [name for name, policy in POLICIES.items() if policy.keeps_float32 and policy.is_narrow]


def _known_policy(name: str) -> str:
    if name not in POLICIES:
        raise PydanticCustomError("policy", f"must be one of {', '.join(POLICIES)}")
    return name


KnownPolicy = Annotated[str, AfterValidator(_known_policy)]


class Dtypes(NamedTuple):
    compute: str
    variable: str
    output: str


def expected_dtypes(policy: str) -> Dtypes:
    """Return the dtypes that a model under `policy` must have. The output is always float32."""
    return Dtypes(FORMATS[POLICIES[policy].products].dtype, POLICIES[policy].variables, "float32")


class Dynamic(Section):
    """Define a loss scale that starts at `initial` and doubles after `growth_steps` steps in a row without overflow.

    An overflow halves the scale and skips the step.
    """

    mode: Literal["dynamic"]
    initial: PositiveFloat = 2.0**15
    growth_steps: PositiveInt = 2000


class Fixed(Section):
    """Define a loss scale that stays at `value`. No step is skipped, so an overflow reaches the weights."""

    mode: Literal["fixed"]
    value: PositiveFloat


class Unscaled(Section):
    mode: Literal["none"]


LossScale = Annotated[Dynamic | Fixed | Unscaled, Field(discriminator="mode")]


def _usual_loss_scale(data: dict[str, Any]) -> LossScale:
    """Return the loss scale that Keras uses by default under the policy in `data`."""
    policy = POLICIES.get(data.get("policy", ""))
    is_scaled = policy and policy.products == "float16" and policy.keeps_float32
    return Dynamic(mode="dynamic") if is_scaled else Unscaled(mode="none")


class Variant(Section):
    """Choose a precision policy, multiples of the benchmark's batch size, epochs and learning rate, and how to train.

    `epoch_multiplier` multiplies the epochs, including those of the warm-up. Training with twice the batch size for
    twice the epochs makes about the same number of updates. `epoch_multiplier` and `learning_rate_multiplier` do not
    change the seconds that an epoch takes. By default, `loss_scale` is dynamic under mixed_float16, and the loss is not
    scaled under any other policy. With `xla`, TensorFlow compiles each step with XLA, as JAX always does. The loop
    `fit` is Keras's own; the loop `custom` computes and applies the gradients itself. `float32_layers` names layers, or
    kinds of layers, that compute in float32 under a mixed policy. The variant runs on the benchmarks that `benchmarks`
    names, by default on all.
    """

    policy: KnownPolicy
    batch_multiplier: PositiveInt
    epoch_multiplier: PositiveInt = 1
    learning_rate_multiplier: PositiveFloat = 1.0
    loss_scale: LossScale = Field(default_factory=_usual_loss_scale)
    float32_layers: list[str] = Field(default_factory=list)
    xla: bool = False
    loop: Literal["fit", "custom"] = "fit"
    benchmarks: Annotated[list[Name], Field(min_length=1)] | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether all settings but `policy`, `batch_multiplier` and `benchmarks` have their default values."""
        return self == Variant(policy=self.policy, batch_multiplier=self.batch_multiplier, benchmarks=self.benchmarks)

    @property
    def varies_precision(self) -> bool:
        """Return whether the variant would be plain (see `is_plain`) without its `float32_layers`."""
        return self.model_copy(update={"float32_layers": []}).is_plain

    @property
    def precision(self) -> tuple[str, tuple[str, ...]]:
        """Return the policy, and the names or kinds of the layers that stay in float32."""
        return self.policy, tuple(self.float32_layers)

    def runs_on(self, benchmark: str) -> bool:
        return self.benchmarks is None or benchmark in self.benchmarks

    def faults(self, steps_per_execution: Mapping[str, int]) -> Iterator[str]:
        """Yield a message for each setting that keeps the variant from training or would have no effect.

        Each message begins with the field's name.

        Args:
            steps_per_execution: the `steps_per_execution` of every benchmark, by the benchmark's name.
        """
        for name in self.benchmarks or []:
            if name not in steps_per_execution:
                yield unknown_name("benchmarks", name, "names of benchmarks", steps_per_execution)
        if self.loss_scale.mode != "none" and POLICIES[self.policy].products != "float16":
            yield (
                f"loss_scale: {self.policy} has the range of float32, so its loss is never scaled; only that of "
                "float16 and mixed_float16 is."
            )
        row = POLICIES[self.policy]
        if self.float32_layers and (self.policy not in MIXED or row.layers):
            yield f"float32_layers: {self.policy} is no mixed policy, so layers can't keep to float32 beside others."
        for benchmark, steps in steps_per_execution.items():
            if self.loop == "custom" and steps > 1 and self.runs_on(benchmark):
                yield (
                    f"loop: the custom loop takes one step at a time, but {benchmark} has steps_per_execution {steps}. "
                    "Restrict the variant to other `benchmarks`."
                )
