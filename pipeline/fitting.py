"""Whether a benchmark's model can be trained at all, found out by building it before anything is trained."""

import sys
from pathlib import Path

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import numpy as np

from pipeline import building
from pipeline.batches import WholeBatches
from pipeline.benchmark import Application, Benchmark, Imported
from pipeline.errors import InputError
from pipeline.precision import check_model, observed_dtypes
from pipeline.study import Study
from pipeline.variant import Variant

OURS = ("pipeline", "stages", "bench", "tests", ".venv")
GIVEN = {"name", "num_classes", "image_shape"}  # to a network of keras.applications, by what the study says elsewhere


def check(study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int) -> None:
    """Builds and compiles the benchmark `name` for every policy it is trained under, and predicts two images.

    Raises:
        InputError: the model can't be imported, called or built, does not fit the images, the classes or a policy, or
            needs modules that lie beside its `source`; the optimizer refuses its arguments.
    """
    benchmark = study.benchmarks[name]
    if isinstance(benchmark.model, Application) and (taken := sorted(GIVEN & benchmark.model.arguments.keys())):
        raise InputError(f"{name}: model.arguments: {', '.join(taken)} can't stand here: the study says it elsewhere")
    for variant in {variant.policy: variant for variant in study.variants_of(name).values()}.values():
        _check(name, benchmark, variant, image_shape, num_classes)
    if isinstance(benchmark.model, Imported):
        _check_beside(name, Path(benchmark.model.source))


def _check(
    name: str, benchmark: Benchmark, variant: Variant, image_shape: tuple[int, int, int], num_classes: int
) -> None:
    try:
        model, _ = building.build_model(benchmark, variant.policy, num_classes, image_shape[-1], seed=0)
    except SystemExit:
        raise InputError(f"{name}: {benchmark.model.name} ends the process when it is imported or called") from None
    building.compile_model(model, benchmark, variant)
    images = np.random.default_rng(0).integers(0, 256, (2, *image_shape), np.uint8)
    probabilities = engine.predict(model, WholeBatches(images, 2))
    check_model(name, benchmark, variant.policy, observed_dtypes(model, str(probabilities.dtype)), probabilities)


def _check_beside(name: str, source: Path) -> None:
    """Refuses modules that were imported from the folder around `source`: their changes would train nothing anew."""
    source, project = source.resolve(), Path.cwd().resolve()
    known = [
        source,
        *(project / part for part in OURS),
        *(Path(part).resolve() for part in (sys.prefix, sys.base_prefix)),
    ]
    files = {
        Path(file).resolve() for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))
    }
    beside = sorted(
        str(file.relative_to(source.parent))
        for file in files
        if file.is_relative_to(source.parent) and not any(file.is_relative_to(folder) for folder in known)
    )
    if beside:
        raise InputError(
            f"{name}: the model imports {', '.join(beside)}, beside {source.name}: what changes there would train "
            "nothing anew. Put them into one folder, a package, and name that as `source`."
        )
