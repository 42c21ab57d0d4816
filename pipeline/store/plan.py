"""The runs of a study in its store and in their places: which are made as it says."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.store.identity import Identity, of_runs
from pipeline.store.kept import made, read_identity
from pipeline.study.schema import RunKey, Study


def missing_runs(study: Study, root: Path = Path()) -> list[RunKey]:
    """Return the runs that are not made as the study says, neither in their places under `root` nor in the store."""
    return [
        key
        for benchmark in study.benchmarks
        for key, of in of_runs(study, benchmark).items()
        if not made(root / key.directory, of, partial(keeps_limit, study))
    ]


def keeps_limit(study: Study, folder: Path) -> bool:
    """Return whether a finished run is as it would be under the study's limit of time, whatever limit it had."""
    record: dict[str, Any] = json.loads((folder / "record.json").read_bytes())
    return bool(record["outcome"] != "too_slow" or record["times"]["max_run_seconds"] == study.max_run_seconds)


def check_packages(place: Path, of: Identity) -> None:
    """Refuse to make a run again that other versions of packages made, and nothing else has changed.

    Raises:
        InputError: names the versions and the two ways on.
    """
    said = read_identity(place)
    made_by: dict[str, Any] = said["of"] if said else of
    before, now = made_by["packages"], of["packages"]
    if before == now or made_by | {"packages": now} != of:
        return
    differing = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    versions = ", ".join(f"{name} {before.get(name, 'none')} (here {now.get(name, 'none')})" for name in differing)
    raise InputError(
        f"{place} was made with {versions}. Runs of different versions don't compare. Either install the former again, "
        "or make every run by what is here: give the study another `campaign` in params.yaml."
    )
