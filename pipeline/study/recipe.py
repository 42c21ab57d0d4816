"""The recipe of a model: optimizer, learning rate and augmentation."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from pipeline.study.configuration import NonNegativeInt, PositiveFloat, Section

OptimizerName = Literal[
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw",
    "ftrl", "lamb", "lion", "nadam", "rmsprop", "sgd",
]  # fmt: skip
RESERVED_ARGUMENTS = (
    "learning_rate",
    "loss_scale_factor",
    "name",
)  # arguments of an optimizer that the study sets in other places


def _names_no_reserved(arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if taken := sorted(set(RESERVED_ARGUMENTS) & set(arguments)):
        raise PydanticCustomError("taken", f"{', '.join(taken)} can't stand here: the study sets it in another place")
    return arguments


class Optimizer(Section):
    """One of Keras's; `arguments` are further arguments of its class, `weight_decay` or `momentum` among them."""

    name: OptimizerName
    learning_rate: PositiveFloat
    arguments: Annotated[dict[str, JsonValue], AfterValidator(_names_no_reserved)] = Field(default_factory=dict)


class LearningRateRule(Section):
    """The schedule of the learning rate η.

    `scaling: linear` multiplies η by the variant's `batch_multiplier`, after Goyal et al., Accurate, Large Minibatch
    SGD (arXiv 1706.02677). `num_warmup_epochs` raise it from zero, a step at a time. `decay: cosine` then takes it back
    to zero over the epochs that remain.
    """

    scaling: Literal["constant", "linear"] = "constant"
    decay: Literal["constant", "cosine"] = "constant"
    num_warmup_epochs: NonNegativeInt = 0


PositiveShare = Annotated[float, Field(gt=0, le=1)]


class RandomFlip(Section):
    name: Literal["random_flip"]
    mode: Literal["horizontal", "vertical", "horizontal_and_vertical"] = "horizontal"


class RandomTranslation(Section):
    """By up to these shares of height and width; what comes in is a mirror image.

    `nearest` moves by whole pixels, and `bilinear` blurs an image that is moved by a part of one.
    """

    name: Literal["random_translation"]
    height_factor: PositiveShare
    width_factor: PositiveShare
    interpolation: Literal["bilinear", "nearest"] = "bilinear"


Augmentation = Annotated[RandomFlip | RandomTranslation, Field(discriminator="name")]
