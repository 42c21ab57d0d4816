"""What a study varies: the policy, the batch, the loss scale, TF32, XLA and the training loop."""

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from pipeline.configuration import Name, Section

PolicyName = Literal["float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"]


class Dynamic(Section):
    """Starts at `initial` and doubles after `growth_steps` steps in a row without overflow.

    At an overflow it halves and the step is skipped.
    """

    mode: Literal["dynamic"]
    initial: PositiveFloat = 2.0**15
    growth_steps: PositiveInt = 2000


class Fixed(Section):
    """Stays at `value`. No engine skips a step then: an overflow reaches the weights."""

    mode: Literal["fixed"]
    value: PositiveFloat


class Unscaled(Section):
    mode: Literal["none"]


LossScale = Annotated[Dynamic | Fixed | Unscaled, Field(discriminator="mode")]


def _usual_loss_scale(data: dict[str, Any]) -> LossScale:
    """What Keras does when it is asked for nothing."""
    return Dynamic(mode="dynamic") if data.get("policy") == "mixed_float16" else Unscaled(mode="none")


class Variant(Section):
    """What is varied: the policy, the batch size as a multiple of B, loss scale, TF32, XLA and the training loop.

    Without `loss_scale`, mixed_float16 has a dynamic one and every other policy none. The `custom` loop takes
    gradients and applies them by itself where `fit` is Keras's own. `benchmarks` names those the variant is run on;
    without it, all.
    """

    policy: PolicyName
    batch_multiplier: PositiveInt
    loss_scale: LossScale = Field(default_factory=_usual_loss_scale)
    tf32: bool = False
    jit_compile: bool = False
    loop: Literal["fit", "custom"] = "fit"
    benchmarks: Annotated[list[Name], Field(min_length=1)] | None = None

    def is_plain(self, engine: str) -> bool:
        """Whether only policy and batch are chosen: Keras's own loop and loss scale, no TF32, XLA for JAX alone."""
        usual = _usual_loss_scale({"policy": self.policy})
        return (self.loop, self.loss_scale, self.tf32, self.jit_compile) == ("fit", usual, False, engine == "jax")

    def faults(self) -> list[str]:
        """What no engine can run, or what would have no effect; each begins with the field."""
        faults = []
        if self.loss_scale.mode != "none" and self.policy not in ("float16", "mixed_float16"):
            faults.append(
                f"loss_scale: {self.policy} has the range of float32 and is never scaled; only float16 and "
                "mixed_float16 are."
            )
        if self.tf32 and self.policy in ("float16", "bfloat16"):
            faults.append(f"tf32: {self.policy} has no float32 products that TF32 could round.")
        counts = Counter(self.benchmarks or [])
        return faults + [f"benchmarks: {twice!r} stands twice." for twice in counts if counts[twice] > 1]

    def faults_on_several_devices(self, engine: str) -> list[str]:
        """What fails, or goes wrong silently, where a batch is shared by devices; each begins with the field."""
        faults = []
        if self.loop == "custom":
            faults.append("loop: custom trains on one device; Keras 3.15 breaks it on several (keras #23085).")
        if engine == "tensorflow" and self.jit_compile and self.loss_scale.mode == "dynamic":
            faults.append("jit_compile: crashes with a dynamic loss scale on several devices (keras #21366).")
        return faults
