"""Find which runs of a study are already made as the study says, in their places or in the store."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.store.identity import Identity, of_runs
from pipeline.store.kept import made, read_identity
from pipeline.study.schema import RunKey, Study


def missing_runs(study: Study) -> list[RunKey]:
    """Return the runs that are not yet made as the study says, in their places or in the store."""
    return [
        key
        for benchmark in study.benchmarks
        for key, of in of_runs(study, benchmark).items()
        if not made(key.directory, of, partial(keeps_limit, study))
    ]


def keeps_limit(study: Study, folder: Path) -> bool:
    """Return whether a finished run still counts. A run that was too slow counts only under the same time limit."""
    record: dict[str, Any] = json.loads((folder / "record.json").read_bytes())
    return bool(record["outcome"] != "too_slow" or record["times"]["max_run_seconds"] == study.max_run_seconds)


def check_packages(place: Path, of: Identity) -> None:
    """Refuse to make a run again if nothing but the versions of packages has changed.

    Raises:
        InputError: the message names the versions and two ways to go on.
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
