"""What is trained: a data set, a model and a recipe."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from pipeline.configuration import Name, NonNegativeInt, Section
from pipeline.variant import Variant


class Split(Section):
    """How the training set is cut. Examples are taken from the front and held out from behind.

    With `shuffle_seed` the examples are permuted once before the cut, the same for every run.
    """

    num_train_examples: PositiveInt
    num_validation_examples: PositiveInt
    shuffle_seed: NonNegativeInt | None = None


class Dense(Section):
    name: Literal["dense"]
    units: PositiveInt


class EfficientNet(Section):
    """One of the family B0 to B7. `width` multiplies filters and `depth` repeats, in place of what its number says."""

    name: Literal["efficientnet"]
    number: Annotated[int, Field(ge=0, le=7)] = 0
    width: PositiveFloat | None = None
    depth: PositiveFloat | None = None
    squeeze_excite: Literal["transformed", "textbook"] = "transformed"
    batch_norm_momentum: Annotated[float, Field(gt=0, lt=1)] = 0.99


Model = Annotated[Dense | EfficientNet, Field(discriminator="name")]


class Optimizer(Section):
    name: Literal["adam", "rmsprop"]
    learning_rate: PositiveFloat


class Benchmark(Section):
    """A data set, a model and a recipe. `batch_size` is the batch size B of the baseline.

    Every variant evaluates at the same `evaluation_batch_size`.
    """

    dataset: Name
    split: Split
    image_size: PositiveInt
    model: Model
    optimizer: Optimizer
    batch_size: PositiveInt
    evaluation_batch_size: PositiveInt
    num_epochs: PositiveInt
    steps_per_execution: PositiveInt = 1

    def faults_on_several_devices(self, engine: str, num_devices: int, variants: Iterable[Variant]) -> Iterator[str]:
        """What several devices can't run, batches among it that they can't share evenly; each begins with the field."""
        if engine == "tensorflow" and num_devices > 1 and self.steps_per_execution > 1:
            yield "steps_per_execution: must be 1 on several devices, where TensorFlow fails on more."
        sizes = [("evaluation_batch_size", self.evaluation_batch_size)]
        for batch_size in {self.batch_size * variant.batch_multiplier for variant in variants}:
            sizes += [
                ("batch_size", batch_size),
                ("split.num_train_examples", self.split.num_train_examples % batch_size),
            ]
        for field, size in sizes:
            if size % num_devices:
                yield f"{field}: batches of {size} can't be shared by {num_devices} devices."
