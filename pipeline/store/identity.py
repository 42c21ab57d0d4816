"""Compute the identity of a run, a speed measurement, the numerics or a data set: all that decides the result.

DVC compares files to decide whether a stage runs. The identity then decides what the stage makes again. Nothing here
needs an engine.
"""

import importlib.metadata
import os
from pathlib import Path
from typing import Any

from pipeline.data.datasets import read_description
from pipeline.files.code import digest, file_digest, with_imports
from pipeline.machine.engine_choice import SWITCH
from pipeline.machine.environment import image_identity, installed_engine, variables
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.engines import ENGINES
from pipeline.study.schema import RunKey, Study

Identity = dict[str, Any]  # ready for JSON

# The file that each kind of work starts from. The files that it imports belong to the identity, too. A model's code
# belongs to the recipe.
TRAINING = Path("pipeline/training/run.py")
SPEED = Path("pipeline/speed/measuring.py")
NUMERICS = Path("pipeline/numerics/finding.py")
PREPARATION = Path("pipeline/data/preparation.py")
# The packages that compute; packages that are not installed are skipped.
PACKAGES = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "jax": ("jax", "jaxlib", "jax-cuda12-plugin", "libtpu"),
}
PACKAGES_OF_ALL = ("keras", "ml-dtypes", "numpy", "nvidia-cublas-cu12", "nvidia-cudnn-cu12")


def of_runs(study: Study, benchmark: str) -> dict[RunKey, Identity]:
    """Return the identity of every run of `benchmark`, in the study's order.

    Raises:
        InputError: the data are missing.
    """
    shared = _shared(study, TRAINING) | _recipe(study, benchmark)
    return {
        key: {
            "key": key._asdict(),
            "variant": study.variants[key.variant].model_dump(mode="json", exclude={"benchmarks"}),
            **shared,
        }
        for key in study.runs()
        if key.benchmark == benchmark
    }


def of_speed(study: Study, benchmark: str, device: str, driver: str | None) -> Identity:
    """Return the identity of the speed measurement of `benchmark` on this device."""
    settings = study.model_dump(
        mode="json",
        include={
            "speed": {"target_half_width", "validation"},
            "comparison": {"baseline"},
            "max_run_seconds": True,
        },
    )
    timed = dict.fromkeys(study.measured_as(benchmark).values())
    variants = {name: study.variants[name].model_dump(mode="json", exclude={"benchmarks"}) for name in timed}
    settings["budget_seconds"] = study.budget_seconds(benchmark)
    of = {"speed": benchmark, "device": device, "driver": driver, "settings": settings, "variants": variants}
    return of | _shared(study, SPEED) | _recipe(study, benchmark)


def of_numerics(study: Study, device: str) -> Identity:
    """Return the identity of the numerics of `study` on this device."""
    recipes = {name: _recipe(study, name) for name in study.numerics_on or study.benchmarks}
    return {"numerics": study.numerics, "device": device, "benchmarks": recipes} | _shared(study, NUMERICS)


def of_data(name: str, source: DatasetSource) -> Identity:
    """Return the identity of a data set: where it comes from, and the code that prepares it."""
    own = digest(Path(source.source)) if source.source else None
    return {"data": name, "source": source.model_dump(mode="json"), "own code": own, "code": _code(PREPARATION)}


def _shared(study: Study, code: Path) -> Identity:
    engine = installed_engine()
    return {
        "campaign": study.campaign,
        "code": _code(code),
        "engine": engine,
        "packages": _packages(engine),
        "variables": variables() | {name: os.environ[name] for name in [SWITCH] if name in os.environ},
    }


def _code(file: Path) -> dict[str, str]:
    """Return the SHA-256 of a file's code and of each file that it imports, without comments and docstrings."""
    return {str(each): file_digest(each) for each in with_imports(file)}


def _packages(engine: str) -> dict[str, str]:
    """Return the versions of the packages that compute; in a container, also the SHA-256 of its contents."""
    found = {}
    for name in sorted((*PACKAGES_OF_ALL, *PACKAGES[ENGINES[engine].backend])):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    image = image_identity()
    return found | ({"container image": str(image["content_sha256"])} if image else {})


def _recipe(study: Study, name: str) -> Identity:
    benchmark = study.benchmarks[name]
    dataset = read_description(benchmark.dataset)
    source = study.datasets[benchmark.dataset]
    return {
        "recipe": benchmark.model_dump(mode="json"),
        # Features and splits belong here, because different labels may have the same numbers.
        "data": {"name": dataset.name, "sha256": dataset.sha256}
        | source.model_dump(mode="json", exclude_defaults=True, exclude={"bundled", "tfds"}),
        "model": digest(Path(benchmark.model.source)),
    }
