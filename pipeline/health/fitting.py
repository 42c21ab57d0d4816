"""Build a benchmark's model before anything is trained, to find out whether it can be trained at all."""

import sys
from pathlib import Path

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import numpy as np

from pipeline.data.batches import WholeBatches
from pipeline.errors import InputError
from pipeline.study.benchmark import Benchmark, Imported
from pipeline.study.schema import Study
from pipeline.study.variant import Variant
from pipeline.training import building
from pipeline.training.precision import check_model, observed_dtypes

PROJECT_FOLDERS = ("pipeline", "stages", "bench", "tests", ".venv")


def check(study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int) -> None:
    """Build and compile the benchmark `name` for every policy it is trained under, and predict two images.

    Lack of memory is no fault of the model: runs have an outcome for it.

    Raises:
        InputError: the model can't be imported, called or built, does not fit the images, the classes or a policy, or
            needs modules that lie beside its `source`; the optimizer refuses its arguments.
    """
    benchmark = study.benchmarks[name]
    for variant in {variant.policy: variant for variant in study.variants_of(name).values()}.values():
        try:
            _check(name, benchmark, variant, image_shape, num_classes)
        except Exception as error:
            if not engine.is_out_of_memory(error):
                raise
            print(f"{name}: {variant.policy} does not fit into memory here; its runs will say so in their records")
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
    """Refuse modules that were imported from the folder around `source`: their changes would train nothing again."""
    source, project = source.resolve(), Path.cwd().resolve()
    known = [
        source,
        *((project / part).resolve() for part in PROJECT_FOLDERS),
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
            "nothing again. Put them into one folder, a package, and name that as `source`."
        )
