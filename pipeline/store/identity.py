"""Compute the identities of runs, speed measurements, `results/numerics.json` and data sets.

An identity is a dictionary of the settings, data, code and machine properties that may change a result. DVC compares
files to decide whether a stage runs. The stage then compares identities to decide which results to make again. This
module imports neither TensorFlow nor JAX.
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

Identity = dict[str, Any]  # holds only values that JSON keeps unchanged
K = TypeVar("K")

# The Python file in which each kind of work starts. An identity covers this file and all files that this file imports.
# `_recipe` adds the source of the benchmark's model, which is imported by name at run time.
TRAINING_CODE = Path("pipeline/training/run.py")
SPEED_CODE = Path("pipeline/speed/measuring.py")
NUMERICS_CODE = Path("pipeline/numerics/finding.py")
PREPARATION_CODE = Path("pipeline/data/preparation.py")
TABLE_OF_POLICIES = Path("pipeline/study/policies.py")
# The packages whose versions belong to an identity, by Keras's backend. Packages that are not installed are skipped.
PACKAGES = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "jax": ("jax", "jaxlib", "jax-cuda12-plugin", "libtpu"),
}
PACKAGES_OF_ALL = ("keras", "ml-dtypes", "numpy", "nvidia-cublas-cu12", "nvidia-cudnn-cu12")
AGAIN = "What is finished stays. Run the same command again."
# The keys of an identity that depend on the machine and its software. All other keys follow from the study, the data
# and the code.
PLACE = ("device", "driver", "engine", "packages", "variables")


def of_runs(study: Study, benchmark: str) -> dict[RunKey, Identity]:
    """Return the identity of every run of `benchmark`, by the run's key, in the study's order.

    Raises:
        InputError: the data set is not prepared, the model's source is missing, a file of code has a syntax error, or
            the variable ENGINE names no engine.
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
    """Return the identity of the speed measurement of `benchmark`.

    Args:
        device: the name of the device, from `device_name_here`.
        driver: the version of NVIDIA's driver, or None without a driver.
    """
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
    """Return the identity of `results/numerics.json` for `study` on `device`, a name from `device_name_here`."""
    recipes = {name: _recipe(study, name) for name in study.numerics_on or study.benchmarks}
    of = {"numerics": study.numerics, "device": device, "benchmarks": recipes, "code": _code(NUMERICS_CODE)}
    of["policies"] = _rows(POLICIES)
    return of | _surroundings(study)


def of_data(name: str, source: DatasetSource) -> Identity:
    """Return the identity of the data set `name`: its source, and digests of the code that prepares the data set.

    The code includes the user's own builder of the data set, if there is one.
    """
    own = {source.source: digest(Path(source.source))} if source.source else {}
    return {"data": name, "source": source.model_dump(mode="json"), "code": _code(PREPARATION_CODE) | own}


def read_by(study: Study, benchmark: str, code: Path) -> Identity:
    """Return the recipe of `benchmark`, and digests of the data, the model and the code that a process reads.

    Args:
        code: the file in which the process starts, such as `TRAINING_CODE`.
    """
    return _recipe(study, benchmark) | {"code": _code(code)}


def check_read(study: Study, benchmark: str, code: Path, of: Identity) -> None:
    """Raise `InputError` if the data, the model, the code or the policies are no longer those of the identity `of`.

    A process calls this function after it has read the data or imported code, to find out whether somebody edited
    files since the identity was computed. The message names the edited files.
    """
    now = of | read_by(study, benchmark, code) | {"policies": _rows(of["policies"])}
    if now != of:
        edits = ", ".join(departures(of, now))
        raise InputError(f"{edits} was edited while {benchmark} was made. {AGAIN}")


def check_current(made: Mapping[K, Identity], wanted: Mapping[K, Identity]) -> None:
    """Raise `InputError` if the study, the data or the code was edited while a stage worked.

    DVC hashes the files that a stage depends on only after the stage has ended. Without this check, DVC would assume
    that the stage read the edited files.

    Args:
        made: the identities of the stage's results, computed before the stage worked.
        wanted: the identities of the stage's results, computed after the stage worked.
    """
    left = [key for key, of in wanted.items() if made.get(key) != of]
    if left:
        edits = set().union(*(departures(made[key], wanted[key]) if key in made else [str(PARAMS)] for key in left))
        number = f"{len(left)} of {len(wanted)} runs are" if len(wanted) > 1 else "the result is"
        edited = ", ".join(sorted(edits))
        raise InputError(f"{edited} was edited while this command worked, so {number} still to be made. {AGAIN}")


def departures(before: Identity, now: Identity) -> list[str]:
    """Name each difference between two identities: a file, "data" or a property of the machine."""
    return list(dict.fromkeys(_told(path) for path in differing(before, now)))


def _told(path: tuple[str, ...]) -> str:
    # An identity of the numerics holds recipe, data and model under "benchmarks" and the benchmark's name.
    part, *rest = path[2:] or (str(PARAMS),) if path[0] == "benchmarks" else path
    if part in PLACE:
        return " ".join((part, *rest))
    if part in ("code", "model"):
        return rest[-1] if rest else part
    if part == "policies":
        return str(TABLE_OF_POLICIES)
    return "data" if part == "data" else str(PARAMS)


def says_the_study(said: Identity, of: Identity, aside: Sequence[str] = ()) -> bool:
    """Return whether two identities agree in all keys except those in `PLACE` and in `aside`."""
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
    """Return the SHA-256 of `file` and of each file that `file` imports, directly or indirectly, by path.

    Comments and docstrings do not change the digests. The table of policies is left out, because an identity holds the
    rows of the policies in use.
    """
    return {str(each): file_digest(each) for each in with_imports(file) if each != TABLE_OF_POLICIES}


def _rows(policies: Iterable[str]) -> dict[str, Any]:
    return {name: POLICIES[name].that_decides for name in policies}


def _packages(engine: str) -> dict[str, str]:
    """Return the versions of the packages that compute, by name. In a container, add a SHA-256 of its package list."""
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
        # The features and splits of the source count too, because two label features may hold the same integers.
        "data": {"name": dataset.name, "sha256": dataset.sha256}
        | source.model_dump(mode="json", exclude_defaults=True, exclude={"bundled", "tfds"}),
        "model": {benchmark.model.source: digest(Path(benchmark.model.source))},
    }
