"""A benchmark: a data set, a model and a recipe."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, JsonValue, Tag
from pydantic_core import PydanticCustomError

from pipeline.study.configuration import Name, NonNegativeInt, PositiveFloat, PositiveInt, Section, SourcePath
from pipeline.study.variant import Variant

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


IMPORTABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Split(Section):
    """The cut of the training set. Examples are taken from the front and held out from behind.

    With `shuffle_seed` the examples are permuted once before the cut, the same for every run.
    """

    num_train_examples: PositiveInt
    num_validation_examples: PositiveInt
    shuffle_seed: NonNegativeInt | None = None


class Dense(Section):
    name: Literal["dense"]
    units: PositiveInt
    source: Literal["pipeline/models/dense.py"]


class EfficientNet(Section):
    """One of the family B0 to B7. `width` multiplies filters and `depth` repeats, in place of what its number says."""

    name: Literal["efficientnet"]
    number: Annotated[int, Field(ge=0, le=7)] = 0
    width: PositiveFloat | None = None
    depth: PositiveFloat | None = None
    squeeze_excite: Literal["transformed", "textbook"] = "transformed"
    batch_norm_momentum: Annotated[float, Field(gt=0, lt=1)] = 0.99
    source: Literal["pipeline/models/efficientnet.py"]


class ResNet9(Section):
    """A ResNet of nine layers; its first convolution has `width` filters, where the original has 64."""

    name: Literal["resnet9"]
    width: PositiveInt
    batch_norm_momentum: Annotated[float, Field(gt=0, lt=1)] = 0.9
    source: Literal["pipeline/models/resnet9.py"]


def _importable(name: str) -> str:
    if not IMPORTABLE.fullmatch(name):
        raise PydanticCustomError(
            "model",
            "must be dense, efficientnet, resnet9, keras.applications:<function>, or <module>:<function> of your own",
        )
    return name


class Imported(Section):
    """`<module>:<function>` of the user's, called with a `pipeline.models.ModelSpec`, which carries `arguments`.

    `keras.applications:<function>` is one whose module is ours: `pipeline/models/application.py` is its `source`.
    `source` is the file or folder that holds the module, from this project's folder on. What is changed there trains
    again. The folder around it is put on the path that modules are imported from.
    """

    name: Annotated[str, AfterValidator(_importable)]
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    source: SourcePath

    @property
    def module(self) -> str:
        module = self.name.partition(":")[0]
        return "pipeline.models.application" if module == "keras.applications" else module

    @property
    def function(self) -> str:
        return self.name.partition(":")[2]


def _kind_of_model(model: Any) -> str:
    name = model.get("name") if isinstance(model, dict) else getattr(model, "name", None)
    return {"dense": "Dense", "efficientnet": "EfficientNet", "resnet9": "ResNet9"}.get(str(name), "Imported")


Model = Annotated[
    Annotated[Dense, Tag("Dense")]
    | Annotated[EfficientNet, Tag("EfficientNet")]
    | Annotated[ResNet9, Tag("ResNet9")]
    | Annotated[Imported, Tag("Imported")],
    Discriminator(_kind_of_model),
]


class Benchmark(Section):
    """A data set, a model and a recipe. `batch_size` is the batch size B of the baseline.

    Every variant evaluates at the same `evaluation_batch_size`.
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

    def with_dense_model(self, units: int) -> Self:
        """Return the same benchmark with a dense model: for what does not depend on the model."""
        return self.model_copy(update={"model": Dense(name="dense", units=units, source="pipeline/models/dense.py")})

    def num_epochs_of(self, variant: Variant) -> int:
        return self.num_epochs * variant.epoch_multiplier

    def steps_per_epoch(self, batch_multiplier: int) -> int:
        """Return the steps of an epoch of a variant; the last batch may be smaller."""
        return -(-self.split.num_train_examples // (self.batch_size * batch_multiplier))

    def faults(self, num_devices: int, variants: Mapping[str, Variant]) -> Iterator[str]:
        """Yield what can't be trained in these variants; each begins with its field."""
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
            if variant.policy == "float8" and self.model.name in ("efficientnet", "resnet9"):
                yield f"model: {name} has float8, which dense layers alone compute in. Name its `benchmarks`."
        if self.learning_rate_rule.num_warmup_epochs >= self.num_epochs:
            yield f"learning_rate_rule.num_warmup_epochs: must leave an epoch of the {self.num_epochs}."
        yield from self._faults_on_several_devices(num_devices, variants.values())

    def faults_on_tensorflow(self, num_devices: int, variants: Iterable[Variant]) -> Iterator[str]:
        """Yield what TensorFlow can't train in these variants, and JAX can; each begins with its field."""
        if any(variant.xla for variant in variants) and any(
            of.name == "random_translation" for of in self.augmentation
        ):
            yield "augmentation: random_translation can't be compiled with XLA on TensorFlow, as a variant is."
        if num_devices > 1 and self.steps_per_execution > 1:
            yield "steps_per_execution: must be 1 on several devices, where TensorFlow fails on more."

    def _faults_on_several_devices(self, num_devices: int, variants: Iterable[Variant]) -> Iterator[str]:
        """Yield what several devices can't run, batches among it that they can't share evenly."""
        sizes = [("evaluation_batch_size", self.evaluation_batch_size)]
        for batch_size in {self.batch_size * variant.batch_multiplier for variant in variants}:
            sizes += [
                ("batch_size", batch_size),
                ("split.num_train_examples", self.split.num_train_examples % batch_size),
            ]
        for field, size in sizes:
            if size % num_devices:
                yield f"{field}: batches of {size} can't be shared by {num_devices} devices."
