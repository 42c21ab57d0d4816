"""A campaign on many machines: which stages they share out among them, and which of those are still missing.

DVC's run cache is where they meet: a stage that one machine has run is known to all that see the cache.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from pipeline.configuration import Section
from pipeline.errors import InputError
from pipeline.study import Study


class Site(Section):
    """What a cluster wants of a job: where machines meet, and the options of sbatch for one run."""

    meeting_place: Literal["shared_cache", "remote"]
    partition: str | None
    account: str | None
    time_limit: str
    cpus: PositiveInt
    gpus: Annotated[int, Field(ge=0)]
    memory: str
    max_jobs: PositiveInt

    def options(self) -> list[str]:
        """The options of sbatch for a job of this site."""
        named = {
            "partition": self.partition,
            "account": self.account,
            "time": self.time_limit,
            "cpus-per-task": self.cpus,
            "gpus": self.gpus or None,
            "mem": self.memory,
        }
        return [f"--{name}={value}" for name, value in named.items() if value is not None]

    def check(self, study: Study) -> None:
        """Returns if a job of this site has what the study asks for. Raises `InputError` that says what is missing."""
        if study.runtime == "cuda" and self.gpus < study.devices:
            raise InputError(
                f"gpus: {self.gpus} a job, and the study (runtime cuda, devices {study.devices}) trains on "
                f"{study.devices}. Ask for as many in the site's file, or change the study"
            )


def shared_stages(study: Study) -> list[str]:
    """The stages that need the machines a campaign is about: every run, numerics, and the ceilings."""
    return [key.stage for key in study.runs()] + ["numerics", "ceilings"]


def missing_stages(stages: Sequence[str], root: Path, remote: bool) -> list[str]:
    """Those of `stages` that no machine has finished, for the code and the data under `root`.

    Args:
        remote: look in DVC's default remote too, and fetch what is there.
    """
    from dvc.repo import Repo  # which takes a second to import
    from dvc.stage.cache import RunCacheNotFoundError

    missing = []
    with contextlib.chdir(root), Repo() as repo, repo.lock:
        if remote:
            repo.stage_cache.pull(None)
        for name in stages:
            stage = repo.stage.load_one(name=name)
            stage.save_deps()
            try:
                repo.stage_cache.restore(stage, pull=remote, dry=not remote)
            except RunCacheNotFoundError:
                missing.append(name)
    return missing
