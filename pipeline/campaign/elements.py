"""Number what a campaign consists of: its runs, the numerics, its speeds, and at the end what collects them.

Jobs of a cluster know these numbers alone. They follow from the study, which no campaign changes.
"""

from collections.abc import Sequence
from pathlib import Path

from pipeline.machine.left_out import read_left_out
from pipeline.records.blocks import SPEED
from pipeline.store.plan import missing_runs
from pipeline.study.schema import Study

NUMERICS = Path("results/numerics.json")
Element = Sequence[str]  # a module of `stages` and its arguments


def elements(study: Study) -> list[Element]:
    """Return what each element does, in the order of their numbers."""
    runs = [("train", "--benchmark", key.benchmark, "--run", f"{key.variant}/{key.seed}") for key in study.runs()]
    speeds = [("speed", "--benchmark", benchmark) for benchmark in study.timed_benchmarks]
    return [*runs, ("numerics",), *speeds, ("collect",)]


def missing_elements(study: Study) -> list[int]:
    """Return the numbers of what is not made in this folder, the campaign's; of the collector nothing is made.

    Runs that were left out where the others were made are not missing.
    """
    missing = set(missing_runs(study.without(read_left_out(study))))
    runs = [key not in missing for key in study.runs()]
    speeds = [(SPEED / benchmark / "measurement.json").exists() for benchmark in study.timed_benchmarks]
    return [number for number, made in enumerate([*runs, NUMERICS.exists(), *speeds]) if not made]


def in_words(element: Element) -> str:
    """Return an element as a message names it, as in "train mnist_dense float32/0"."""
    return " ".join(word for word in element if not word.startswith("--"))
