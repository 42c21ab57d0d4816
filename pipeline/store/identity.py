"""Compute the identity of a run, a speed measurement, the numerics or a data set: all that affects the result.

DVC compares files to decide whether a stage runs. The identity then decides what the stage makes again. Nothing here
needs an engine.
"""

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipeline.data.datasets import read_description
from pipeline.errors import InputError
from pipeline.files.code import digest, file_digest, with_imports
from pipeline.files.places import PARAMS
from pipeline.machine.environment import image_identity, installed_engine, variables
from pipeline.study.configuration import differing
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.engines import ENGINES
from pipeline.study.policies import POLICIES
from pipeline.study.schema import RunKey, Study

Identity = dict[str, Any]  # ready for JSON
K = TypeVar("K")

# The file that each kind of work starts from. The files that it imports belong to the identity, too. A model's code
# belongs to the recipe.
TRAINING_CODE = Path("pipeline/training/run.py")
SPEED_CODE = Path("pipeline/speed/measuring.py")
NUMERICS_CODE = Path("pipeline/numerics/finding.py")
PREPARATION_CODE = Path("pipeline/data/preparation.py")
TABLE_OF_POLICIES = Path("pipeline/study/policies.py")
# The packages that compute; packages that are not installed are skipped.
PACKAGES = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "jax": ("jax", "jaxlib", "jax-cuda12-plugin", "libtpu"),
}
PACKAGES_OF_ALL = ("keras", "ml-dtypes", "numpy", "nvidia-cublas-cu12", "nvidia-cudnn-cu12")
AGAIN = "What is finished stays. Run the same command again."
# The parts of an identity that say where something was made; the study, the data and the code decide all others.
PLACE = ("device", "driver", "engine", "packages", "variables")


def of_runs(study: Study, benchmark: str) -> dict[RunKey, Identity]:
    """Return the identity of every run of `benchmark`, in the study's order.

    Raises:
        InputError: the data are missing.
    """
    shared = _surroundings(study) | read_by(study, benchmark, TRAINING_CODE)
    return {
        key: {
            "key": key._asdict(),
            "variant": study.variants[key.variant].model_dump(mode="json", exclude={"benchmarks"}),
            "policies": _rows([study.variants[key.variant].policy]),
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
    of["policies"] = _rows(study.variants[name].policy for name in timed)
    return of | _surroundings(study) | read_by(study, benchmark, SPEED_CODE)


def of_numerics(study: Study, device: str) -> Identity:
    """Return the identity of the numerics of `study` on this device."""
    recipes = {name: _recipe(study, name) for name in study.numerics_on or study.benchmarks}
    of = {"numerics": study.numerics, "device": device, "benchmarks": recipes, "code": _code(NUMERICS_CODE)}
    of["policies"] = _rows(POLICIES)
    return of | _surroundings(study)


def of_data(name: str, source: DatasetSource) -> Identity:
    """Return the identity of a data set: where it comes from, and the code that prepares it."""
    own = {source.source: digest(Path(source.source))} if source.source else {}
    return {"data": name, "source": source.model_dump(mode="json"), "code": _code(PREPARATION_CODE) | own}


def read_by(study: Study, benchmark: str, code: Path) -> Identity:
    """Return the part of an identity that a process reads: the recipe, and the data, the model and the code on disk.

    Args:
        code: the file that the process starts from, such as `TRAINING_CODE`.
    """
    return _recipe(study, benchmark) | {"code": _code(code)}


def check_read(study: Study, benchmark: str, code: Path, of: Identity) -> None:
    """Raise `InputError` if data, model or code on disk are no longer those of the identity `of`.

    A process calls this when it has read all three, and has imported the table of policies. The message names what was
    edited.
    """
    now = of | read_by(study, benchmark, code) | {"policies": _rows(of["policies"])}
    if now != of:
        edits = ", ".join(departures(of, now))
        raise InputError(f"{edits} was edited while {benchmark} was made. {AGAIN}")


def check_current(made: Mapping[K, Identity], wanted: Mapping[K, Identity]) -> None:
    """Raise `InputError` if what was `made` is not what is `wanted` now, as after an edit of the study or of code.

    DVC hashes what a stage depends on only after the stage has ended, so it would assume that the stage read the edited
    file.
    """
    left = [key for key, of in wanted.items() if made.get(key) != of]
    if left:
        edits = set().union(*(departures(made[key], wanted[key]) if key in made else [str(PARAMS)] for key in left))
        number = f"{len(left)} of {len(wanted)} runs are" if len(wanted) > 1 else "the result is"
        edited = ", ".join(sorted(edits))
        raise InputError(f"{edited} was edited while this command worked, so {number} still to be made. {AGAIN}")


def departures(before: Identity, now: Identity) -> list[str]:
    """Name what distinguishes two identities: files, or properties of the machine."""
    return list(dict.fromkeys(_told(path) for path in differing(before, now)))


def _told(path: tuple[str, ...]) -> str:
    # The identity of the numerics holds a part for each benchmark, under the benchmark's name.
    part, *rest = path[2:] or (str(PARAMS),) if path[0] == "benchmarks" else path
    if part in PLACE:
        return " ".join((part, *rest))
    if part in ("code", "model"):
        return rest[-1] if rest else part
    if part == "policies":
        return str(TABLE_OF_POLICIES)
    return "data" if part == "data" else str(PARAMS)


def says_the_study(said: Identity, of: Identity, aside: Sequence[str] = ()) -> bool:
    """Tell whether two identities agree in all that the study, the data and the code decide.

    The parts in `aside` may differ.
    """
    return all(path[0] in (*PLACE, *aside) for path in differing(said, of))


def _surroundings(study: Study) -> Identity:
    engine = installed_engine()
    return {
        "campaign": study.campaign,
        "engine": engine,
        "packages": _packages(engine),
        "variables": variables(),
    }


def _code(file: Path) -> dict[str, str]:
    """Return the SHA-256 of a file's code and of each file that it imports, without comments and docstrings.

    The table of policies is left out: identities hold the rows that matter.
    """
    return {str(each): file_digest(each) for each in with_imports(file) if each != TABLE_OF_POLICIES}


def _rows(policies: Iterable[str]) -> dict[str, Any]:
    return {name: POLICIES[name].that_decides for name in policies}


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
        "recipe": benchmark.recipe,
        # Features and splits belong here, because different labels may have the same numbers.
        "data": {"name": dataset.name, "sha256": dataset.sha256}
        | source.model_dump(mode="json", exclude_defaults=True, exclude={"bundled", "tfds"}),
        "model": {benchmark.model.source: digest(Path(benchmark.model.source))},
    }
