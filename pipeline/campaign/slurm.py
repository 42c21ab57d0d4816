"""Say what a campaign's jobs ask of a Slurm cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from pipeline.campaign.elements import Element
from pipeline.errors import InputError
from pipeline.study.configuration import Section
from pipeline.study.schema import Study

CLUSTER = Path("cluster.yaml")  # in a campaign that Slurm makes


class Cluster(Section):
    """Hold the options of sbatch for one run.

    `exclusive_speed` is whether a job that measures speed has its node to itself.
    """

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

    def run_options(self, numbers: Sequence[int]) -> list[str]:
        """Return the options of the array that makes these elements: runs, which are warned in time, and numerics."""
        return [*self._array(numbers, self.max_jobs), f"--signal=B:USR1@{self.warning_seconds}"]

    def speed_options(self, numbers: Sequence[int]) -> list[str]:
        """Return the options of the array that measures these elements.

        Other jobs on a node disturb a measurement, the campaign's own as well. Where none can have a node to itself,
        one follows the other.
        """
        if self.exclusive_speed:
            return [*self._array(numbers, self.max_jobs), "--exclusive"]
        return self._array(numbers, 1)

    def collector_options(self) -> list[str]:
        """Return the options of the job that collects the others; it trains nothing."""
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

    def check(self, study: Study, hardware: str) -> None:
        """Raise `InputError` where a job of this cluster lacks what the study asks for.

        Args:
            hardware: what the packages here train on.
        """
        if hardware == "nvidia_gpu" and self.gpus < study.devices:
            raise InputError(
                f"gpus: {self.gpus} a job, and the study trains on {study.devices}. Ask for as many in the cluster's "
                "file, or install the packages of another ENGINE"
            )


def split(numbers: Sequence[int], elements: Sequence[Element]) -> tuple[list[int], list[int]]:
    """Return which of the numbers are of speeds, after those of the others."""
    speeds = [number for number in numbers if elements[number][0] == "speed"]
    return [number for number in numbers if number not in speeds], speeds
