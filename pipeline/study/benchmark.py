"""Define a benchmark: a data set, a model and a recipe for training."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, JsonValue, Tag
from pydantic_core import PydanticCustomError

from pipeline.study.configuration import Name, NonNegativeInt, PositiveFloat, PositiveInt, Section, SourcePath
from pipeline.study.policies import POLICIES
from pipeline.study.variant import Variant

OptimizerName = Literal[
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw",
    "ftrl", "lamb", "lion", "nadam", "rmsprop", "sgd",
]  # fmt: skip
RESERVED_ARGUMENTS = ("learning_rate", "loss_scale_factor", "name")  # of an optimizer: other fields set them


def _names_no_reserved(arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if taken := sorted(set(RESERVED_ARGUMENTS) & set(arguments)):
        raise PydanticCustomError("taken", f"{', '.join(taken)} can't stand here: the study sets it in another place")
    return arguments


class Optimizer(Section):
    """Choose one of Keras's optimizers. The optimizer's class gets `arguments`, such as `momentum`."""

    name: OptimizerName
    learning_rate: PositiveFloat
    arguments: Annotated[dict[str, JsonValue], AfterValidator(_names_no_reserved)] = Field(default_factory=dict)


class LearningRateRule(Section):
    """Define how the learning rate η changes during training.

    During the first `num_warmup_epochs`, η rises linearly from zero to its full value. With `decay: cosine`, η then
    falls along a cosine to zero over the remaining epochs.
    """

    decay: Literal["constant", "cosine"] = "constant"
    num_warmup_epochs: NonNegativeInt = 0


PositiveShare = Annotated[float, Field(gt=0, le=1)]


class RandomFlip(Section):
    """Flip images horizontally at random."""

    name: Literal["random_flip"]


class RandomTranslation(Section):
    """Shift images at random, by at most these shares of their height and width, rounded to whole pixels.

    The gap is filled with a reflection of the image.
    """

    name: Literal["random_translation"]
    height_factor: PositiveShare
    width_factor: PositiveShare


Augmentation = Annotated[RandomFlip | RandomTranslation, Field(discriminator="name")]


IMPORTABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Split(Section):
    """Take training examples from the beginning of a data set's training set, and validation examples from its end.

    With `shuffle_seed`, the training set is shuffled first, into the same order for every run.
    """

    num_train_examples: PositiveInt
    num_validation_examples: PositiveInt
    shuffle_seed: NonNegativeInt | None = None


class OwnModel(Section):
    """Choose one of this project's models. `USUAL` holds the arguments that `make advise` uses by default.

    `USUAL_ON_ACCELERATOR` holds the defaults that differ with an engine for GPUs or TPUs. `LAYERS` lists the kinds of
    layers that multiply by weights, named as in `keras.layers`. `title` is the model's name in reports.
    """

    LAYERS: ClassVar[tuple[str, ...]]
    USUAL: ClassVar[Mapping[str, float]] = {}
    USUAL_ON_ACCELERATOR: ClassVar[Mapping[str, float]] = {}


class Dense(OwnModel):
    LAYERS: ClassVar = ("Dense",)
    USUAL: ClassVar = {"units": 64}
    USUAL_ON_ACCELERATOR: ClassVar = {"units": 4096}

    name: Literal["dense"]
    units: PositiveInt
    source: Literal["pipeline/models/dense.py"]

    @property
    def title(self) -> str:
        return f"dense network of {self.units:,} units"


class EfficientNet(OwnModel):
    """Choose EfficientNet-B0. `depth` multiplies the number of blocks in every stage but the first, rounded up."""

    LAYERS: ClassVar = ("Conv2D", "DepthwiseConv2D", "Dense")
    USUAL: ClassVar = {"batch_norm_momentum": 0.9}

    name: Literal["efficientnet"]
    depth: PositiveFloat = 1.0
    batch_norm_momentum: Annotated[float, Field(gt=0, lt=1)] = 0.99
    source: Literal["pipeline/models/efficientnet.py"]

    @property
    def title(self) -> str:
        return "small EfficientNet" if self.depth <= 0.25 else "EfficientNet-B0"


class ResNet9(OwnModel):
    """Choose a ResNet of nine layers. Its first convolution has `width` filters (64 in David Page's original)."""

    LAYERS: ClassVar = ("Conv2D", "Dense")
    USUAL: ClassVar = {"width": 16}

    name: Literal["resnet9"]
    width: PositiveInt
    source: Literal["pipeline/models/resnet9.py"]

    @property
    def title(self) -> str:
        return f"ResNet-9 of width {self.width}"


class Transformer(OwnModel):
    """Choose a vision transformer of `num_blocks` blocks. Each patch of 4 × 4 pixels is a token of `width` values."""

    LAYERS: ClassVar = ("Conv2D", "Dense", "EinsumDense")
    USUAL: ClassVar = {"width": 64, "num_blocks": 2}

    name: Literal["transformer"]
    width: Annotated[int, Field(gt=0, le=4096, multiple_of=4)]
    num_blocks: Annotated[int, Field(gt=0, le=48)]
    source: Literal["pipeline/models/transformer.py"]

    @property
    def title(self) -> str:
        return f"vision transformer of {self.num_blocks} block{'s' * (self.num_blocks > 1)}, width {self.width}"


OWN_MODELS: Mapping[str, type[OwnModel]] = {
    "dense": Dense,
    "efficientnet": EfficientNet,
    "resnet9": ResNet9,
    "transformer": Transformer,
}


def _importable(name: str) -> str:
    if not IMPORTABLE.fullmatch(name):
        raise PydanticCustomError(
            "model",
            f"must be {', '.join(OWN_MODELS)}, keras.applications:<function>, or <module>:<function> of your own",
        )
    return name


class Imported(Section):
    """Build the model with the user's function. `name` is `<module>:<function>`.

    The function is called with a `ModelSpec`, which holds `arguments`. `source` is the file or folder that contains the
    module, relative to this project's folder. If a file in `source` changes, the model is trained again. The parent
    folder of `source` is added to Python's import path. `batch_norm_momentum`, if given, replaces the momentum of the
    running averages of every `BatchNormalization`. If `name` is `keras.applications:<function>`, `source` must be
    `pipeline/models/application.py`.
    """

    name: Annotated[str, AfterValidator(_importable)]
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    batch_norm_momentum: Annotated[float, Field(gt=0, lt=1)] | None = None
    source: SourcePath

    @property
    def title(self) -> str:
        return self.name.removesuffix(":build").replace(":", ".").rpartition(".")[2]

    @property
    def module(self) -> str:
        module = self.name.partition(":")[0]
        return "pipeline.models.application" if module == "keras.applications" else module

    @property
    def function(self) -> str:
        return self.name.partition(":")[2]


def _kind_of_model(model: Any) -> str:
    name = model.get("name") if isinstance(model, dict) else getattr(model, "name", None)
    return OWN_MODELS.get(str(name), Imported).__name__


Model = Annotated[
    Annotated[Dense, Tag("Dense")]
    | Annotated[EfficientNet, Tag("EfficientNet")]
    | Annotated[ResNet9, Tag("ResNet9")]
    | Annotated[Transformer, Tag("Transformer")]
    | Annotated[Imported, Tag("Imported")],
    Discriminator(_kind_of_model),
]


class Benchmark(Section):
    """Combine a data set, a model and a recipe for training. Variants multiply `batch_size`, the batch size B.

    Images are resized to `image_size` × `image_size` pixels. Every variant is evaluated with the same
    `evaluation_batch_size`. `sitting_spread` is τ, the standard deviation of the natural logarithm of a speedup over
    repeated measurements of speed.
    """

    dataset: Name
    split: Split
    image_size: PositiveInt
    model: Model
    augmentation: list[Augmentation] = Field(default_factory=list)
    optimizer: Optimizer
    learning_rate_rule: LearningRateRule = LearningRateRule()
    batch_size: PositiveInt
    evaluation_batch_size: PositiveInt
    num_epochs: PositiveInt
    steps_per_execution: PositiveInt = 1
    sitting_spread: Annotated[float, Field(gt=0, le=1)] = 0.06

    @property
    def recipe(self) -> dict[str, Any]:
        """Return all fields but `sitting_spread`, which does not affect a run, with values of JSON's types."""
        return self.model_dump(mode="json", exclude={"sitting_spread"})

    def with_dense_model(self, units: int) -> Self:
        """Return a copy of this benchmark with a dense model of `units` units."""
        return self.model_copy(update={"model": Dense(name="dense", units=units, source="pipeline/models/dense.py")})

    def num_epochs_of(self, variant: Variant) -> int:
        return self.num_epochs * variant.epoch_multiplier

    def steps_per_epoch(self, batch_multiplier: int) -> int:
        """Return the number of steps in an epoch at this batch multiplier; the last batch may be smaller."""
        return -(-self.split.num_train_examples // (self.batch_size * batch_multiplier))

    def faults(self, variants: Mapping[str, Variant]) -> Iterator[str]:
        """Yield a message for each setting that keeps one or more of these variants from training.

        Each message begins with the field's name.
        """
        too_large: dict[int, list[str]] = {}
        for name, variant in variants.items():
            if self.batch_size * variant.batch_multiplier > self.split.num_train_examples:
                too_large.setdefault(variant.batch_multiplier, []).append(name)
        for multiplier, names in too_large.items():
            yield (
                f"batch_size: {self.batch_size} × {multiplier} of {', '.join(names)} is more than the "
                f"{self.split.num_train_examples} training examples."
            )
        for name, variant in variants.items():
            kinds = POLICIES[variant.policy].layers
            if kinds and isinstance(self.model, OwnModel) and not {*self.model.LAYERS} <= {*kinds}:
                yield (
                    f"model: {name} uses {variant.policy}, which is only for layers of the kinds {', '.join(kinds)}. "
                    "Restrict it with `benchmarks`."
                )
        if self.learning_rate_rule.num_warmup_epochs >= self.num_epochs:
            yield f"learning_rate_rule.num_warmup_epochs: must leave at least one of the {self.num_epochs} epochs."
