"""The part of the study that says how one run is made, as the run's record repeats it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import LossScale

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Part(BaseModel):
    """Hold a part of what a run leaves behind: refuse unknown keys, and take no NaN for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Planned(Part):
    """The settings of one run: what the study varies, and what all its runs share.

    Runs may be compared where each was made as the study plans it: `planned(study, record.key) == record.planned`.
    """

    campaign: str
    engine: str
    devices: int
    policy: str
    learning_rate_multiplier: float = 1.0
    tf32: bool
    jit_compile: bool
    loop: Literal["fit", "custom"]
    loss_scale: LossScale
    batch_size: Count
    image_size: Count
    num_train_examples: Count
    num_validation_examples: Count
    num_epochs: Count
    steps_per_epoch: Count

    def cells(self) -> dict[str, Any]:
        """Return the settings as cells of a table: of the loss scale its mode alone, and not the planned epochs."""
        return self.model_dump(exclude={"num_epochs"}) | {"loss_scale": self.loss_scale.mode}


def planned(study: Study, key: RunKey) -> Planned:
    """Return how `study` wants the run `key` made."""
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    return Planned(
        campaign=study.campaign,
        engine=study.engine,
        devices=study.devices,
        policy=variant.policy,
        learning_rate_multiplier=variant.learning_rate_multiplier,
        tf32=variant.tf32,
        jit_compile=variant.jit_compile,
        loop=variant.loop,
        loss_scale=variant.loss_scale,
        batch_size=benchmark.batch_size * variant.batch_multiplier,
        image_size=benchmark.image_size,
        num_train_examples=benchmark.split.num_train_examples,
        num_validation_examples=benchmark.split.num_validation_examples,
        num_epochs=benchmark.num_epochs_of(variant),
        steps_per_epoch=benchmark.num_steps(variant.batch_multiplier),
    )
