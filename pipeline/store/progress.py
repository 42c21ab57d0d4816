"""Show how far the runs of a benchmark are and how long they still take: in a live line, or a few lines of a log."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from pipeline.numbers import duration
from pipeline.records.run_record import RunRecord
from pipeline.study.schema import RunKey
from pipeline.training.so_far import SoFar

QUIET_SECONDS = 60  # after so long without a line, a log gets one during a run


class RunProgress:
    """Show the progress of a benchmark's runs while they are made.

    Args:
        missing: the runs to make, in order.
        took: the seconds of each run made earlier, by which the others are forecast.
        num_epochs: of each run, by variant.
        num_at_once: how many runs are made side by side; a thread reports each of them.
    """

    def __init__(
        self,
        console: Console,
        missing: Sequence[RunKey],
        took: Mapping[RunKey, float],
        num_epochs: Mapping[str, int],
        num_at_once: int = 1,
    ) -> None:
        self._missing, self._num_epochs = list(missing), num_epochs
        self._seconds: dict[str, list[float]] = defaultdict(list)  # by variant
        for key, seconds in took.items():
            self._seconds[key.variant].append(seconds)
        self._num_made, self._num_at_once = 0, num_at_once
        self._told = time.monotonic()
        self._begun: dict[RunKey, float] = {}  # when each run began, finished or not
        self._lock = threading.Lock()
        self._line = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=15),
            TextColumn("{task.fields[detail]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console,
            transient=True,
            refresh_per_second=2,  # beside training, which needs every core
            disable=not console.is_terminal,
        )
        self._task = self._line.add_task("", total=len(self._missing), detail="")

    def __enter__(self) -> "RunProgress":
        self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._line.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self._told = time.monotonic()

    def begin(self, key: RunKey) -> None:
        self._begun[key] = time.monotonic()
        self._show(key, "starts")

    def grow(self, key: RunKey, so_far: SoFar) -> None:
        """Show the latest epoch of a run that is being made."""
        if not so_far.epochs:
            return
        epoch = so_far.epochs[-1]
        text = f"epoch {epoch.epoch} of {self._num_epochs[key.variant]}, {epoch.train_seconds:.2f} s"
        self._show(key, text)
        if not self._line.console.is_terminal and time.monotonic() - self._told >= QUIET_SECONDS:
            self.say(f"{self._where()} · {_name(key)} · {text}")

    def end(self, key: RunKey, record: RunRecord) -> None:
        """Print a line for a run that is finished."""
        with self._lock:
            where, seconds = self._where(), time.monotonic() - self._begun[key]
            self._seconds[key.variant].append(seconds)
            self._num_made += 1
            accuracy = record.scores.test_accuracy
            outcome = record.outcome.replace("_", " ") if accuracy is None else f"test accuracy {accuracy:.4f}"
            left = "" if (left_seconds := self.seconds_left()) is None else f" · {_left(left_seconds)}"
            self.say(f"{where} · {_name(key)} · {seconds:.0f} s · {outcome}{left}")

    def seconds_left(self) -> float | None:
        """Return the seconds until every run is made, or None before any run's duration is known."""
        known = {variant: mean(seconds) for variant, seconds in self._seconds.items()}
        waiting = self._missing[self._num_made :]
        if not known:
            return None
        return sum(known.get(key.variant, mean(known.values())) for key in waiting) / self._num_at_once

    def _where(self) -> str:
        return f"run {self._num_made + 1} of {len(self._missing)}"

    def _show(self, key: RunKey, detail: str) -> None:
        self._line.update(
            self._task, description=self._where(), completed=self._num_made, detail=f"{_name(key)} · {detail}"
        )


def _name(key: RunKey) -> str:
    return f"{key.benchmark} {key.variant} seed {key.seed}"


def _left(seconds: float) -> str:
    if not seconds:
        return "the last"
    return f"about {duration(seconds)} left" if seconds >= 60 else "less than a minute left"
