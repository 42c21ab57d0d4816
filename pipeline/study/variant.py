"""Define a variant: one choice of policy, batch, loss scale, TF32, XLA and training loop."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from pipeline.study.configuration import Name, PositiveFloat, PositiveInt, Section, unknown_name

PolicyName = Literal["float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16", "float8"]


class Policy(NamedTuple):
    """Hold the dtypes of products and of variables, and whether Keras has a policy of this name."""

    compute: str
    variable: str
    is_in_keras: bool

    @property
    def keeps_float32(self) -> bool:
        """Return whether the variables are float32. Policies that round them to 16 bits are experiments."""
        return self.variable == "float32"


POLICIES: dict[str, Policy] = {
    "float32": Policy("float32", "float32", True),
    "float16": Policy("float16", "float16", True),
    "bfloat16": Policy("bfloat16", "bfloat16", True),
    "mixed_float16": Policy("float16", "float32", True),
    "mixed_bfloat16": Policy("bfloat16", "float32", True),
    # Keras's `float8_from_mixed_bfloat16`, only in dense layers. They multiply 8-bit floats (e4m3 forward, e5m2
    # backward). The scales of these floats follow the largest values of earlier steps.
    "float8": Policy("float8", "float32", False),
}
# The policies that multiply in fewer bits and keep float32 variables.
MIXED = [name for name, policy in POLICIES.items() if policy.keeps_float32 and policy.compute != "float32"]


class Dtypes(NamedTuple):
    compute: str
    variable: str
    output: str


def expected_dtypes(policy: str) -> Dtypes:
    """Return the dtypes of a model under `policy` with an output layer in float32."""
    return Dtypes(POLICIES[policy].compute, POLICIES[policy].variable, "float32")


class Dynamic(Section):
    """Define a loss scale that starts at `initial` and doubles after `growth_steps` steps in a row without overflow.

    An overflow halves the scale and skips the step.
    """

    mode: Literal["dynamic"]
    initial: PositiveFloat = 2.0**15
    growth_steps: PositiveInt = 2000


class Fixed(Section):
    """Define a loss scale that stays at `value`. No engine skips a step: an overflow reaches the weights."""

    mode: Literal["fixed"]
    value: PositiveFloat


class Unscaled(Section):
    mode: Literal["none"]


LossScale = Annotated[Dynamic | Fixed | Unscaled, Field(discriminator="mode")]


def _usual_loss_scale(data: dict[str, Any]) -> LossScale:
    """Return the loss scale that Keras uses by default."""
    return Dynamic(mode="dynamic") if data.get("policy") == "mixed_float16" else Unscaled(mode="none")


class Variant(Section):
    """Choose the policy, the batch size and epochs as multiples of the recipe's, and how to train.

    `tf32` lets the device round the factors of float32 products: to TF32 on a GPU, to bfloat16 on a TPU.
    `epoch_multiplier` multiplies the recipe's epochs, warm-up included: twice the batch for twice the epochs makes the
    same number of updates. `learning_rate_multiplier` multiplies the recipe's learning rate. Neither changes how long
    an epoch takes. By default, mixed_float16 has a dynamic `loss_scale` and every other policy has none. With `xla`,
    TensorFlow compiles each step with XLA, as JAX always does. `fit` is Keras's own loop; `custom` computes and applies
    the gradients itself. The variant runs on the `benchmarks` named, by default on all.
    """

    policy: PolicyName
    batch_multiplier: PositiveInt
    epoch_multiplier: PositiveInt = 1
    learning_rate_multiplier: PositiveFloat = 1.0
    loss_scale: LossScale = Field(default_factory=_usual_loss_scale)
    tf32: bool = False
    xla: bool = False
    loop: Literal["fit", "custom"] = "fit"
    benchmarks: Annotated[list[Name], Field(min_length=1)] | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether only policy and batch are chosen: Keras's loop and loss scale, no TF32, no XLA."""
        return self == Variant(policy=self.policy, batch_multiplier=self.batch_multiplier, benchmarks=self.benchmarks)

    def runs_on(self, benchmark: str) -> bool:
        return self.benchmarks is None or benchmark in self.benchmarks

    def faults(self, steps_per_execution: Mapping[str, int]) -> Iterator[str]:
        """Yield a message, which begins with the field, for each setting that can't run or would have no effect.

        Args:
            steps_per_execution: of every benchmark, by name.
        """
        for name in self.benchmarks or []:
            if name not in steps_per_execution:
                yield unknown_name("benchmarks", name, "names of benchmarks", steps_per_execution)
        policy = POLICIES[self.policy]
        if self.loss_scale.mode != "none" and policy.compute != "float16":
            yield (
                f"loss_scale: {self.policy} has the range of float32, so its loss is never scaled; only that of "
                "float16 and mixed_float16 is."
            )
        if self.tf32 and not policy.keeps_float32:
            yield f"tf32: {self.policy} has no float32 products that TF32 could round."
        for benchmark, steps in steps_per_execution.items():
            if self.loop == "custom" and steps > 1 and self.runs_on(benchmark):
                yield (
                    f"loop: the custom loop takes one step at a time, but {benchmark} has steps_per_execution {steps}. "
                    "Restrict the variant to other `benchmarks`."
                )
