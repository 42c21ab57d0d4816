"""Choose what is compiled: the training steps of the sources' recipes, at full scale."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.compiled.targets import CompiledPrecision, Target
from pipeline.files import yaml_files
from pipeline.study.benchmark import Benchmark
from pipeline.study.configuration import validate
from pipeline.study.variant import Variant

RECIPES = Path("conf/base.yaml")
# Height, width and channels of the images, and the number of classes.
DATASETS = {"mnist": ((28, 28, 1), 10), "cifar100": ((32, 32, 3), 100)}


class Step(BaseModel):
    """A training step: a benchmark's model and recipe on uint8 images, at this precision and this batch size.

    `float32` asks for the highest precision, as strict float32 does here. `float32_default` lets the device multiply
    float32 as it does by default: in TF32 on a GPU that has it, in bfloat16 on a TPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    recipe: dict[str, Any]
    image_shape: tuple[int, int, int]
    num_classes: int
    precision: CompiledPrecision
    batch_size: int

    @property
    def policy(self) -> str:
        return "float32" if self.precision == "float32_default" else self.precision

    @property
    def name(self) -> str:
        return f"{self.benchmark} {self.precision} {self.batch_size}"


def recipes(root: Path = Path()) -> dict[str, Benchmark]:
    """Return the sources' benchmarks at full scale, as the profiles are composed over them."""
    path = root / RECIPES
    return {
        name: validate(Benchmark, values, f"{path} benchmarks.{name}")
        for name, values in yaml_files.load(path)["benchmarks"].items()
    }


def step_of(name: str, benchmark: Benchmark, precision: CompiledPrecision, batch_size: int, data: Any = None) -> Step:
    """Return the step of a benchmark; `data` is the shape of an image and the number of classes, if not ours."""
    image_shape, num_classes = data or DATASETS[benchmark.dataset]
    return Step(
        benchmark=name,
        recipe=benchmark.model_dump(mode="json"),
        image_shape=image_shape,
        num_classes=num_classes,
        precision=precision,
        batch_size=batch_size,
    )


def precisions_of(target: Target, benchmark: Benchmark) -> list[CompiledPrecision]:
    """Return the precisions that a step of `benchmark` is compiled at: float8 where a study may train in it."""
    float8 = Variant(policy="float8", batch_multiplier=1, jit_compile=True)
    return [each for each in target.precisions if each != "float8" or not [*benchmark.faults("jax", 1, {each: float8})]]


def programs(target: Target, root: Path = Path()) -> Iterator[Step]:
    """Yield what is compiled for every target, at B and 2B; what shares a model stands together."""
    for name, benchmark in recipes(root).items():
        for precision in precisions_of(target, benchmark):
            for multiplier in (1, 2):
                yield step_of(name, benchmark, precision, multiplier * benchmark.batch_size)
