"""Number the elements of a campaign, and define the Slurm options of their jobs.

The elements are the campaign's runs, the numerics stage, the speed measurements and, last, the collector, which
gathers the results. A job gets only the number of an element. The number is the element's place in the list that
`elements` makes from the study, and the study does not change during a campaign.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from pipeline.errors import InputError
from pipeline.files.places import NUMERICS, SPEED
from pipeline.machine.left_out import read_left_out
from pipeline.store.plan import MAX_STOPS, is_final, missing_runs
from pipeline.study.configuration import Section
from pipeline.study.schema import Study

Element = Sequence[str]  # a module of `stages` and its arguments
WARNING_SECONDS = 60  # Slurm warns a job this long before the job's time ends
CLUSTER = Path("cluster.yaml")  # in the folder of a campaign on Slurm


def elements(study: Study) -> list[Element]:
    """Return the command of each element, in the order of their numbers."""
    runs = [("train", "--benchmark", key.benchmark, "--run", f"{key.variant}/{key.seed}") for key in study.runs()]
    speeds = [("speed", "--benchmark", benchmark) for benchmark in study.timed_benchmarks]
    return [*runs, ("numerics",), *speeds, ("collect",)]


def missing_elements(study: Study, min_stops: int = MAX_STOPS) -> list[int]:
    """Return the numbers of the elements whose results are missing.

    The working directory must be the campaign's folder. The collector never counts as missing. Runs of variants that
    the folder lists as left out (`pipeline.machine.left_out`) do not count either. A run or a speed measurement also
    counts as missing if the time limit has stopped it at least once, but fewer than `min_stops` times in a row.
    """
    missing = set(missing_runs(study.without(read_left_out(study)), min_stops))
    runs = [key not in missing for key in study.runs()]
    folders = [SPEED / benchmark for benchmark in study.timed_benchmarks]
    speeds = [(each / "measurement.json").exists() and is_final(each, min_stops) for each in folders]
    return [number for number, made in enumerate([*runs, NUMERICS.exists(), *speeds]) if not made]


def in_words(element: Element) -> str:
    """Return the name of an element for messages, such as "train mnist_dense float32/0"."""
    return " ".join(word for word in element if not word.startswith("--"))


class Cluster(Section):
    """Hold the values from which the sbatch options of each job are made.

    At most `max_jobs` jobs of an array run at once. Slurm sends mail to the address `mail` if the collector fails. With
    `exclusive_speed`, a job that measures speed asks for a node of its own.
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
        """Return the options of the job array for the runs and the numerics stage.

        Slurm sends SIGUSR1 to each job `WARNING_SECONDS` before the job's time ends.
        """
        return [*self._array(numbers, self.max_jobs), f"--signal=B:USR1@{WARNING_SECONDS}"]

    def speed_options(self, numbers: Sequence[int]) -> list[str]:
        """Return the options of the job array for speed measurements.

        Other jobs on a node disturb a measurement, even jobs of the same campaign. Without `exclusive_speed`, the
        measurements run one after another.
        """
        if self.exclusive_speed:
            return [*self._array(numbers, self.max_jobs), "--exclusive"]
        return self._array(numbers, 1)

    def collector_options(self) -> list[str]:
        """Return the options of the job that collects the results, which needs no GPU."""
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
            hardware: the kind of hardware that the installed packages train on, such as "nvidia_gpu".
        """
        if hardware == "nvidia_gpu" and not self.gpus:
            raise InputError(
                "gpus: jobs ask for none, but the study needs a GPU. Ask for one in the cluster's file, or install the "
                "packages of a different ENGINE"
            )


def split(numbers: Sequence[int], elements: Sequence[Element]) -> tuple[list[int], list[int]]:
    """Split the numbers of elements: first those that do not measure speed, then those that do."""
    speeds = [number for number in numbers if elements[number][0] == "speed"]
    return [number for number in numbers if number not in speeds], speeds
