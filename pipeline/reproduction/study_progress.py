"""Tell how far a study is, from what `dvc repro` and its stages print, and how long it still takes.

In a terminal by a live line, in a log by few.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from pipeline.numbers import duration
from pipeline.reproduction.terminal import Terminal
from pipeline.study.schema import RunKey

BEGUN = re.compile(r"Running stage '(.+)':$")
SKIPPED = re.compile(r"(?:Stage )?'(.+)' (?:didn't change, skipping|is cached - skipping run, checking out outputs)$")
CHATTER = re.compile(
    r"> |(Updating|Generating) lock file|To track the changes|\tgit add|To enable auto|\tdvc config|Use `dvc push`|"
    r"Data and pipelines are up to date|Verifying data sources|.*nothing to run\.$|\s*$"
)
EPOCH = re.compile(r"((epoch \d+/\d+) · .+?)( · loss .+)? · at most")
BAR = re.compile(r"\[\d+:\d+[,<]|\x1b\[A")  # of a download, which goes up and down with the cursor
# The steps of a study, and the stages of each as dvc.yaml names them.
STEPS = {
    "data and models": ("download", "inputs"),
    "16-bit arithmetic": ("numerics",),
    "training": ("train",),
    "speed in turns": ("speed",),
    "comparison, verdicts and report": ("compare", "judge", "report"),
}
QUIET_SECONDS = 60  # after which a log gets a line in the midst of a run


class Forecast:
    """Learn what runs take, by benchmark and variant, and add up what is still to be made.

    Args:
        runs: those of the study.
        earlier: the seconds of each run that was there before, as its record has them. Such a run is expected to stay,
            until one of them has been made again.
        budgets: the seconds of stages that are to measure speed, by the name of the stage.

    `amounts` is how much there is to do, in words, in the steps of a study that take long.
    """

    def __init__(
        self,
        runs: Sequence[RunKey],
        earlier: Mapping[RunKey, float],
        budgets: Mapping[str, float],
    ) -> None:
        self.runs = runs
        self.amounts = {"training": _runs(len(runs)), "speed in turns": f"about {duration(sum(budgets.values()))}"}
        self.done: set[RunKey] = set()
        self._earlier, self._budgets = earlier, dict(budgets)
        self._took: dict[RunKey, float] = {}

    def finish(self, key: RunKey, seconds: float) -> None:
        """Note that the process of `key` took `seconds`, with the time that DVC spent on it."""
        self._took[key] = seconds
        self.done.add(key)

    def finish_stage(self, stage: str) -> None:
        """Note that `stage` takes no more time."""
        self._budgets.pop(stage, None)

    def seconds_left(self, current: RunKey | None = None, elapsed: float = 0.0) -> float | None:
        """Return the seconds until runs and turns are made, `current` having taken `elapsed` so far.

        None while nothing is known of a variant that is still to be trained.
        """
        seconds: dict[tuple[str, str], float] = {}
        for known in (self._earlier, self._took):  # what this study took counts more
            by_variant: dict[tuple[str, str], list[float]] = defaultdict(list)
            for key, taken in known.items():
                by_variant[key.benchmark, key.variant].append(taken)
            seconds |= {name: mean(taken) for name, taken in by_variant.items()}
        left = sum(self._budgets.values())
        staying = () if self._earlier.keys() & self._took.keys() else self._earlier.keys()
        for key in self.runs:
            if key not in self.done and (key == current or key not in staying):
                if (key.benchmark, key.variant) not in seconds:
                    return None
                left += max(seconds[key.benchmark, key.variant] - (elapsed if key == current else 0.0), 0.0)
        return left

    def in_words(self) -> str:
        """Say, before anything is made, how many runs are to be made, and how long by those that are there."""
        num_there = len(self._earlier)
        if num_there == len(self.runs):
            return "every run is there; what has changed since is made again"
        num_missing = len(self.runs) - num_there
        to_make = f"{_runs(num_missing)} to make"
        if not num_there:
            return to_make
        seconds = self.seconds_left()
        about = "" if seconds is None else f": about {duration(seconds)} in all, by what those took"
        return f"{to_make}, {_are_there(num_there)}{about}"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _are_there(num_runs: int) -> str:
    return f"{_runs(num_runs)} {'is' if num_runs == 1 else 'are'} there"


def left_in_words(seconds: float) -> str:
    """Return how long it still takes: `about 9 min left`."""
    return f"about {duration(seconds)} left" if seconds >= 60 else "less than a minute left"


class StudyProgress:
    """Show the runs of a study while DVC makes them.

    Args:
        forecast: it knows the runs, and learns from here which are done.
    """

    def __init__(self, forecast: Forecast, clock: Callable[[], float] = time.monotonic) -> None:
        self._forecast = forecast
        self._keys = {key.stage: key for key in forecast.runs}
        self._step: str | None = None
        self._clock = clock
        self._terminal = Terminal()
        self._line = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=15),
            TextColumn("{task.fields[detail]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=self._terminal,
            transient=True,
            refresh_per_second=2,  # beside training, which needs every core
            disable=not self._terminal.is_terminal,
        )
        self._task = self._line.add_task("preparing", total=len(forecast.runs), detail="")
        self._num_there = 0  # runs that DVC has found since the last stage began
        self._key: RunKey | None = None
        self._begun = self._told = clock()
        self.stage: str | None = None
        self.words: list[str] = []  # what DVC itself said since the last stage began
        self.message: list[str] = []  # what the stage says of its own fault; its end is what to do, and comes last

    def __enter__(self) -> "StudyProgress":
        self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._terminal.print(text, markup=False, highlight=False, soft_wrap=True)
        self._told = self._clock()

    def take(self, line: str) -> None:
        """Make something of a line that DVC or one of its stages printed."""
        line = line.rstrip("\n")
        if found := BEGUN.match(line):
            self._begin(found[1])
        elif found := SKIPPED.match(line):
            self._skip(found[1])
        elif line.startswith("ERROR: "):
            self.words.append(line.removeprefix("ERROR: "))
        elif CHATTER.match(line) or BAR.search(line):
            pass
        elif self.stage is None:
            self.words.append(line)
        elif self.message or line.startswith("error: "):
            self.message.append(line)
        elif self._key and (found := EPOCH.search(line)):
            self._epoch(found[2], found[1])
        elif self._key and line.startswith(f"{self._key.directory}: "):
            self._count(self._key, line.partition(": ")[2])
        else:
            self.say(line)

    def _begin(self, stage: str) -> None:
        self._end()
        for words in [*self.message, *self.words]:
            self.say(words)
        self.words, self.message = [], []
        self.stage, self._key = stage, self._keys.get(stage)
        self._begun = self._clock()
        if self._key or not stage.startswith("train@"):  # in other items of the matrix there is nothing to run
            if self._num_there:
                self.say(f"{_are_there(self._num_there)} already")
                self._num_there = 0
            self._tell_step(stage.partition("@")[0])
        self._show(self._name())

    def _tell_step(self, stage: str) -> None:
        for number, (step, stages) in enumerate(STEPS.items(), 1):
            if stage in stages and step != self._step:
                self._step = step
                amount = f", {self._forecast.amounts[step]}" if step in self._forecast.amounts else ""
                self.say(f"step {number} of {len(STEPS)}: {step}{amount}")

    def _skip(self, stage: str) -> None:
        self._end()
        self._forecast.finish_stage(stage)
        if (key := self._keys.get(stage)) and key not in self._forecast.done:
            self._forecast.done.add(key)
            self._num_there += 1

    def _end(self) -> None:
        """Note how long the item took, DVC's work after its process included."""
        if self._key:
            self._forecast.finish(self._key, self._clock() - self._begun)
        elif self.stage:
            self._forecast.finish_stage(self.stage)
        self.stage = self._key = None

    def _epoch(self, epoch: str, speed: str) -> None:
        self._show(f"{epoch} · {self._name()}")
        if not self._terminal.is_terminal and self._clock() - self._told >= QUIET_SECONDS:
            self.say(f"{self._where()} · {self._name()} · {speed}")

    def _count(self, key: RunKey, outcome: str) -> None:
        """Tell of the run that its process has just called finished."""
        seconds = self._clock() - self._begun
        self._forecast.finish(key, seconds)
        self.say(f"{self._where()} · {self._name()} · {seconds:.0f} s · {outcome}")
        self._show("")

    def _name(self) -> str:
        return f"{self._key.benchmark} {self._key.variant} seed {self._key.seed}" if self._key else ""

    def _where(self) -> str:
        """Return which run of how many this is, and how long the study still takes where that is known."""
        number = len(self._forecast.done) + (self._key not in self._forecast.done)
        left = self._forecast.seconds_left(self._key, self._clock() - self._begun)
        return f"run {number} of {len(self._forecast.runs)}" + ("" if left is None else f" · {left_in_words(left)}")

    def _show(self, detail: str) -> None:
        where = self._where() if self._key else self.stage or ""
        self._line.update(self._task, description=where, completed=len(self._forecast.done), detail=detail)
