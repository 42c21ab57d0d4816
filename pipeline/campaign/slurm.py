"""Define what a campaign's jobs ask of a Slurm cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from pipeline.campaign.elements import Element
from pipeline.errors import InputError
from pipeline.study.configuration import Section

WARNING_SECONDS = 60  # before a job's time ends
CLUSTER = Path("cluster.yaml")  # in the folder of a campaign on Slurm


class Cluster(Section):
    """Hold the options of sbatch for each job.

    `exclusive_speed` says whether a job that measures speed has its node to itself.
    """

    partition: str | None
    account: str | None
    time_limit: str
    cpus: PositiveInt
    gpus: Annotated[int, Field(ge=0)]
    memory: str
    max_jobs: PositiveInt
    mail: str | None
    exclusive_speed: bool = True

    def run_options(self, numbers: Sequence[int]) -> list[str]:
        """Return the options of the job array for runs and numerics; Slurm warns each job before its time ends."""
        return [*self._array(numbers, self.max_jobs), f"--signal=B:USR1@{WARNING_SECONDS}"]

    def speed_options(self, numbers: Sequence[int]) -> list[str]:
        """Return the options of the job array for speed measurements.

        Other jobs on a node disturb a measurement, even jobs of the same campaign. If jobs can't have a node to
        themselves, the measurements run one after another.
        """
        if self.exclusive_speed:
            return [*self._array(numbers, self.max_jobs), "--exclusive"]
        return self._array(numbers, 1)

    def collector_options(self) -> list[str]:
        """Return the options of the job that collects the results. It needs no GPU."""
        mail = [f"--mail-user={self.mail}", "--mail-type=FAIL"] if self.mail else []
        return [*mail, *self._options(gpus=0)]

    def _array(self, numbers: Sequence[int], at_once: int) -> list[str]:
        return [f"--array={','.join(map(str, numbers))}%{at_once}", "--requeue", *self._options(self.gpus)]

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

    def check(self, hardware: str) -> None:
        """Raise `InputError` if jobs ask for no GPU but the installed packages need one.

        Args:
            hardware: the hardware that the installed packages train on.
        """
        if hardware == "nvidia_gpu" and not self.gpus:
            raise InputError(
                "gpus: jobs ask for none, but the study needs a GPU. Ask for one in the cluster's file, or install the "
                "packages of a different ENGINE"
            )


def split(numbers: Sequence[int], elements: Sequence[Element]) -> tuple[list[int], list[int]]:
    """Split the indices of elements into those that don't measure speed and those that do."""
    speeds = [number for number in numbers if elements[number][0] == "speed"]
    return [number for number in numbers if number not in speeds], speeds
