"""Forecast how long a study takes: first from runs that are there or elsewhere, then from those that it makes."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import mean
from types import MappingProxyType

from pipeline.numbers import duration
from pipeline.study.schema import RunKey

# What follows training is `compare`, `judge` and `report`: Python that starts and computes little, like a short run.
SHORTEST_RUNS_AFTER_TRAINING = 2.5
MAX_SECONDS_AFTER_TRAINING = 60.0
SECONDS_BEFORE_TRAINING = 25.0  # data, models and 16-bit arithmetic of `quick`
SECONDS_OF_AN_ITEM = 0.5  # in DVC and its process, beside the run: all that one takes in which there is nothing to run


class Forecast:
    """Learn what runs take, by benchmark and variant, and add up what is still to be made.

    Args:
        items: every item of DVC's matrix, in its order.
        runs: those of the study; for the others a process is started that finds nothing to run.
        earlier: the seconds of each run that was there before, as its record has them. Such a run is expected to stay,
            until one of them has been made again.
        elsewhere: the seconds of runs that another machine of this kind made, as their records have them.
        budgets: the seconds of stages whose length the study says, by the name of the stage.
    """

    def __init__(
        self,
        items: Sequence[RunKey],
        runs: Sequence[RunKey],
        earlier: Mapping[RunKey, float],
        elsewhere: Mapping[RunKey, float] = MappingProxyType({}),
        budgets: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.items, self.runs = items, set(runs)
        self._first = [key for key in runs if key.seed == items[0].seed]
        self._earlier, self._elsewhere = (
            {key: seconds + SECONDS_OF_AN_ITEM for key, seconds in known.items()} for known in (earlier, elsewhere)
        )
        self._took: dict[RunKey, float] = {}
        self._took_nothing: dict[RunKey, float] = {}  # of items in which there is nothing to run
        self.done: set[RunKey] = set()
        self._budgets = dict(budgets)

    @property
    def num_done(self) -> int:
        """Count the runs that are there."""
        return len(self.done & self.runs)

    def finish(self, key: RunKey, seconds: float) -> None:
        """Note that the process of `key` took `seconds`, with the time that DVC spent on it."""
        (self._took if key in self.runs else self._took_nothing)[key] = seconds
        self.done.add(key)

    def skip(self, key: RunKey) -> None:
        """Note that `key` was there already."""
        self.done.add(key)

    def finish_stage(self, stage: str) -> None:
        """Note that `stage` takes no more time."""
        self._budgets.pop(stage, None)

    def seconds_left(self, current: RunKey | None = None, elapsed: float = 0.0) -> float | None:
        """Return the seconds until the report is there, `current` having taken `elapsed` so far.

        None until the runs of the first seed are done, because nothing is known of some variants before.
        """
        return self._seconds_left(current, elapsed) if self.done.issuperset(self._first) else None

    def in_words(self) -> str:
        """Say, before anything is made, how many runs there are, and about how long all takes by what is known."""
        num_there = len(self.runs & self._earlier.keys())
        if num_there == len(self.runs):
            return "every run is there; what has changed since is made again"
        said = f"{len(self.runs) - num_there} runs to make" + (f", {num_there} are there" if num_there else "")
        seconds = self._seconds_left()
        if seconds is None:
            return said
        if num_there:
            return f"{said}: about {duration(seconds)} in all, by what those took"
        return f"{said}: about {duration(SECONDS_BEFORE_TRAINING + seconds)} in all, as a machine of this kind took"

    def _seconds_left(self, current: RunKey | None = None, elapsed: float = 0.0) -> float | None:
        seconds = self.seconds_after_training + sum(self._budgets.values())
        staying = () if self._earlier.keys() & self._took.keys() else self._earlier.keys()
        for item in self.items:
            if item in self.done or (item in staying and item != current):
                continue
            expected = self._expected(item)
            if expected is None:
                return None
            seconds += max(expected - elapsed, 0.0) if item == current else expected
        return seconds

    @property
    def seconds_after_training(self) -> float:
        """Return the seconds that follow training. The shortest run tells how fast this machine is under its load."""
        took = self._took.values() or [*self._earlier.values(), *self._elsewhere.values()]
        return min(SHORTEST_RUNS_AFTER_TRAINING * min(took, default=10.0), MAX_SECONDS_AFTER_TRAINING)

    def _expected(self, item: RunKey) -> float | None:
        """Return the mean over the seeds of this benchmark and variant; else of its benchmark's runs; else of all."""
        if item not in self.runs:
            return mean(self._took_nothing.values() or [SECONDS_OF_AN_ITEM])
        for known, size in [*product((self._took, self._earlier, self._elsewhere), (2, 1)), (self._took, 0)]:
            if seconds := [taken for key, taken in known.items() if key[:size] == item[:size]]:
                return mean(seconds)
        return None


def left_in_words(seconds: float) -> str:
    """Return how long it still takes: `about 9 min left`."""
    return f"about {duration(seconds)} left" if seconds >= 60 else "less than a minute left"
