"""Find the results of a study that are missing, outdated, or stopped at the time limit."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.files.places import NUMERICS, SPEED
from pipeline.store.identity import Identity, of_numerics, of_runs, of_speed, says_the_study
from pipeline.store.kept import made, read_identity
from pipeline.study.schema import RunKey, Study

MAX_STOPS = 2  # a run or measurement that was stopped at the time limit so many times in a row is not tried again


def missing_runs(study: Study, min_stops: int = MAX_STOPS) -> list[RunKey]:
    """Return the runs that have no finished folder of their identity, neither in their place nor in the store.

    A run that was stopped at the time limit fewer than `min_stops` times in a row counts as missing.
    """
    return [
        key
        for benchmark in study.benchmarks
        for key, of in of_runs(study, benchmark).items()
        if not made(key.directory, of, partial(keeps_limit, study, min_stops=min_stops))
    ]


def made_otherwise(study: Study, aside: Sequence[str] = ()) -> tuple[list[RunKey], list[str]]:
    """Return the runs made by another study, other data or other code, and the benchmarks with such speed measurements.

    Look only at the places of the results, not in the store. Leave out results without a readable `identity.json`.

    Args:
        aside: keys of an identity that may differ.
    """
    runs, speeds = [], []
    for benchmark in study.benchmarks:
        keys = [key for key in study.runs() if key.benchmark == benchmark]
        if in_place := {key: said["of"] for key in keys if (said := read_identity(key.directory))}:
            wanted = of_runs(study, benchmark)
            runs += [key for key, of in in_place.items() if not says_the_study(of, wanted[key], aside)]
        said = read_identity(SPEED / benchmark) if benchmark in study.timed_benchmarks else None
        if said and not says_the_study(said["of"], of_speed(study, benchmark, "", None), aside):
            speeds.append(benchmark)
    return runs, speeds


def has_other_numerics(study: Study) -> bool:
    """Return whether another study, other data or other code made the file `NUMERICS`.

    Return False if the file is missing, damaged, or holds no identity.
    """
    of = _read(NUMERICS).get("identity")
    return of is not None and not says_the_study(of, of_numerics(study, ""))


def unmade(study: Study) -> list[str]:
    """Return the DVC stages whose results are missing, or were made by another study, other data or other code."""
    runs, speeds = made_otherwise(study)
    runs += [key for key in study.runs() if not (key.directory / "record.json").exists()]
    speeds += [name for name in study.timed_benchmarks if not (SPEED / name / "measurement.json").exists()]
    found = [f"train@{key.benchmark}" for key in runs] + [f"speed@{name}" for name in speeds]
    return [*dict.fromkeys(found), *(["numerics"] if not NUMERICS.exists() or has_other_numerics(study) else [])]


def stopped_once(study: Study) -> list[str]:
    """Return the DVC stages with a run or a speed measurement that was stopped at a time limit and is to be repeated.

    Such a run or measurement was stopped fewer than `MAX_STOPS` times in a row.
    """
    runs = [key for key in study.runs() if (key.directory / "record.json").exists()]
    found = [f"train@{key.benchmark}" for key in runs if not keeps_limit(study, key.directory)]
    speeds = [name for name in study.timed_benchmarks if (SPEED / name / "measurement.json").exists()]
    found += [f"speed@{name}" for name in speeds if not is_final(SPEED / name)]
    return list(dict.fromkeys(found))


def num_stops(study: Study, folder: Path) -> int:
    """Return how many commands in a row have stopped the run in `folder` at the study's `max_run_seconds`.

    A run that was stopped once is tried again, because a suspended job or a busy machine may be the reason.
    """
    record = _read(folder / "record.json")
    if record.get("outcome") != "too_slow" or record["times"]["max_run_seconds"] != study.max_run_seconds:
        return 0
    return max(1, int(record["times"].get("num_stops", 0)))


def keeps_limit(study: Study, folder: Path, min_stops: int = MAX_STOPS) -> bool:
    """Return whether the finished run in `folder` need not be tried again.

    A run that was too slow is tried again until it was stopped `min_stops` times in a row at the study's time limit.
    """
    return _read(folder / "record.json").get("outcome") != "too_slow" or num_stops(study, folder) >= min_stops


def num_stops_of_speed(folder: Path) -> int:
    """Return in how many measurements in a row, up to the one in `folder`, a process was stopped at the time limit."""
    return int(_read(folder / "measurement.json").get("num_stops", 0))


def is_final(folder: Path, min_stops: int = MAX_STOPS) -> bool:
    """Return whether the finished speed measurement in `folder` need not be repeated.

    A measurement in which a process was stopped at the time limit is repeated until this has happened in `min_stops`
    measurements in a row.
    """
    return not 0 < num_stops_of_speed(folder) < min_stops


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file, or an empty dictionary if the file is missing or damaged.

    The stages that need the file report the fault.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found


def check_packages(place: Path, of: Identity) -> None:
    """Raise `InputError` if the run in `place` differs from the identity `of` only in its packages.

    The message names the versions of the packages, and two remedies.
    """
    said = read_identity(place)
    made_by = said["of"] if said else of
    before, now = made_by["packages"], of["packages"]
    if before == now or made_by | {"packages": now} != of:
        return
    differing = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    versions = ", ".join(f"{name} {before.get(name, 'none')} (here {now.get(name, 'none')})" for name in differing)
    raise InputError(
        f"{place} was made with {versions}. Runs of different versions can't be compared. Install the earlier versions "
        "again, or retrain everything: give the study a new `campaign` in params.yaml."
    )
