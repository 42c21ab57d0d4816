"""A campaign on many machines: which stages they share out among them, and what a job of theirs asks of Slurm."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from pipeline.errors import InputError
from pipeline.study.configuration import Section
from pipeline.study.runtimes import RUNTIMES
from pipeline.study.schema import Study

SPEED_STAGE = "speed@"


class Cluster(Section):
    """Describe what a cluster wants of a job: where machines meet, and the options of sbatch for one run.

    `exclusive_speed` is whether a job that measures speed has its node to itself.
    """

    meeting_place: Literal["shared_cache", "remote"]
    partition: str | None
    account: str | None
    time_limit: str
    warning_seconds: PositiveInt
    cpus: PositiveInt
    gpus: Annotated[int, Field(ge=0)]
    memory: str
    max_jobs: PositiveInt
    mail: str | None
    exclusive_speed: bool = True

    def arrays(self, stages: Sequence[str]) -> list[list[str]]:
        """Return the options of sbatch for each array of elements: of the runs, and of the speeds to be measured after.

        Other jobs on a node disturb a measurement of speed, the campaign's own as well. Where none can have a node to
        itself, one follows the other. A job that its time ended is queued again.

        Args:
            stages: in the order of `shared_stages`; an element is a place among them.
        """
        first_speed = sum(not stage.startswith(SPEED_STAGE) for stage in stages)
        alone, at_once = (["--exclusive"], self.max_jobs) if self.exclusive_speed else ([], 1)
        arrays = [(0, first_speed, self.max_jobs, []), (first_speed, len(stages), at_once, alone)]
        restart = ["--requeue", f"--signal=B:USR1@{self.warning_seconds}"]
        return [
            [f"--array={first}-{end - 1}%{num_jobs}", *restart, *more, *self._options(self.gpus)]
            for first, end, num_jobs, more in arrays
            if first < end
        ]

    def collector(self) -> list[str]:
        """Return the options of sbatch for the job that collects the others; it trains nothing."""
        mail = [f"--mail-user={self.mail}", "--mail-type=FAIL"] if self.mail else []
        return [*mail, *self._options(gpus=0)]

    def _options(self, gpus: int) -> list[str]:
        named = {
            "partition": self.partition,
            "account": self.account,
            "time": self.time_limit,
            "cpus-per-task": self.cpus,
            "gpus": gpus or None,
            "mem": self.memory,
        }
        return [f"--{name}={value}" for name, value in named.items() if value is not None]

    def check(self, study: Study) -> None:
        """Raise `InputError` where a job of this cluster lacks what the study asks for."""
        if RUNTIMES[study.runtime].hardware == "nvidia_gpu" and self.gpus < study.devices:
            raise InputError(
                f"gpus: {self.gpus} a job, and the study (runtime {study.runtime}, devices {study.devices}) trains on "
                f"{study.devices}. Ask for as many in the cluster's file, or change the study"
            )


def shared_stages(study: Study) -> list[str]:
    """Return the stages that need the machines a campaign is about: runs, what is tried once, and speeds at the end."""
    runs = [key.stage for key in study.runs()]
    speeds = [f"{SPEED_STAGE}{benchmark}" for benchmark in study.benchmarks]
    return [*runs, "numerics", "ceilings", "profile", *speeds]
