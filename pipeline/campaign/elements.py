"""Number the elements of a campaign: its runs, the numerics, its speed measurements and, last, the collector.

The jobs of a cluster know only these numbers. The numbers follow from the study, which stays the same in a campaign.
"""

from collections.abc import Sequence

from pipeline.files.places import NUMERICS, SPEED
from pipeline.machine.left_out import read_left_out
from pipeline.store.plan import MAX_STOPS, is_final, missing_runs
from pipeline.study.schema import Study

Element = Sequence[str]  # a module of `stages` and its arguments


def elements(study: Study) -> list[Element]:
    """Return the command of each element, in the order of their numbers."""
    runs = [("train", "--benchmark", key.benchmark, "--run", f"{key.variant}/{key.seed}") for key in study.runs()]
    speeds = [("speed", "--benchmark", benchmark) for benchmark in study.timed_benchmarks]
    return [*runs, ("numerics",), *speeds, ("collect",)]


def missing_elements(study: Study, min_stops: int = MAX_STOPS) -> list[int]:
    """Return the numbers of the elements whose results are missing from the campaign's folder, the working directory.

    The collector never counts as missing, nor do runs of variants left out on the machine of the other runs. A run or a
    measurement that its time limit has ended fewer than `min_stops` times counts as missing, too.
    """
    missing = set(missing_runs(study.without(read_left_out(study)), min_stops))
    runs = [key not in missing for key in study.runs()]
    folders = [SPEED / benchmark for benchmark in study.timed_benchmarks]
    speeds = [(each / "measurement.json").exists() and is_final(each, min_stops) for each in folders]
    return [number for number, made in enumerate([*runs, NUMERICS.exists(), *speeds]) if not made]


def in_words(element: Element) -> str:
    """Return the name of an element for messages, as in "train mnist_dense float32/0"."""
    return " ".join(word for word in element if not word.startswith("--"))
