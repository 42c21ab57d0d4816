"""Which programs are compiled: the steps of the sources' recipes at full scale, and products of awkward sizes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from pipeline.compiled.targets import StepNumbers, Target
from pipeline.files import yaml_files
from pipeline.study.benchmark import Benchmark
from pipeline.study.configuration import validate

RECIPES = Path("conf/base.yaml")
# Height, width and channels of the images, and the number of classes.
DATASETS = {"mnist": ((28, 28, 1), 10), "cifar100": ((32, 32, 3), 100)}
NUM_ROWS = 8192  # of a product, as in the batch of the dense benchmark
# No two multiples of 4, 8, 64 and 128 hold for the same ones of these.
WIDTHS = (4095, 4096, 4097, 4100, 4104, 4160, 4224)


class Step(BaseModel):
    """A training step: a benchmark's model and recipe on uint8 images, in these numbers, at this batch size.

    `float32` asks for the highest precision, as strict float32 does here. `float32_default` lets the device multiply
    float32 as it does by default: in TF32 on a GPU that has it, in bfloat16 on a TPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["step"] = "step"
    benchmark: str
    recipe: dict[str, Any]
    image_shape: tuple[int, int, int]
    num_classes: int
    numbers: StepNumbers
    batch_size: int

    @property
    def policy(self) -> str:
        return "float32" if self.numbers == "float32_default" else self.numbers

    @property
    def name(self) -> str:
        return f"{self.benchmark} {self.numbers} {self.batch_size}"


class Product(BaseModel):
    """A product of a matrix of `num_rows` × `width` with one of `width` × `width`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["product"] = "product"
    numbers: StepNumbers
    num_rows: int = NUM_ROWS
    width: int

    @property
    def policy(self) -> str:
        return "float32" if self.numbers == "float32_default" else self.numbers

    @property
    def dtype(self) -> str:
        return "float32" if self.numbers.startswith("float32") else self.numbers.removeprefix("mixed_")

    @property
    def name(self) -> str:
        return f"product {self.numbers} {self.width}"


def recipes(root: Path = Path()) -> dict[str, Benchmark]:
    """Return the sources' benchmarks at full scale, as the profiles are composed over them."""
    path = root / RECIPES
    return {
        name: validate(Benchmark, values, f"{path} benchmarks.{name}")
        for name, values in yaml_files.load(path)["benchmarks"].items()
    }


def step_of(name: str, benchmark: Benchmark, numbers: StepNumbers, batch_size: int, data: Any = None) -> Step:
    """Return the step of a benchmark; `data` is the shape of an image and the number of classes, if not ours."""
    image_shape, num_classes = data or DATASETS[benchmark.dataset]
    return Step(
        benchmark=name,
        recipe=benchmark.model_dump(mode="json"),
        image_shape=image_shape,
        num_classes=num_classes,
        numbers=numbers,
        batch_size=batch_size,
    )


def programs(target: Target, root: Path = Path()) -> Iterator[Step | Product]:
    """Yield what is compiled for every target, at B and 2B; what shares a model stands together."""
    for name, benchmark in recipes(root).items():
        for numbers in target.numbers:
            for multiplier in (1, 2):
                yield step_of(name, benchmark, numbers, multiplier * benchmark.batch_size)
    for numbers in target.numbers:
        for width in WIDTHS:
            yield Product(numbers=numbers, width=width)
