"""Print the progress of a benchmark's runs and a forecast of the time left."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean

from pipeline.records.run_record import RunRecord
from pipeline.study.schema import RunKey
from pipeline.training.so_far import SoFar
from pipeline.words.numbers import duration

QUIET_SECONDS = 60  # after this time without output, a line reports on a run that is being made


class RunProgress:
    """Print the progress of a benchmark's runs while they are made. Several threads may report at once.

    Args:
        missing: the runs to make, in order.
        took: the seconds that each finished run took. The forecast uses the mean of each variant.
        num_epochs: the number of epochs of a run, by variant.
        num_at_once: the number of runs that are made side by side.
    """

    def __init__(
        self,
        missing: Sequence[RunKey],
        took: Mapping[RunKey, float],
        num_epochs: Mapping[str, int],
        num_at_once: int,
    ) -> None:
        self._missing, self._num_epochs = missing, num_epochs
        self._seconds: dict[str, list[float]] = defaultdict(list)  # by variant
        for key, seconds in took.items():
            self._seconds[key.variant].append(seconds)
        self._num_made, self._num_at_once = 0, num_at_once
        self._told = time.monotonic()
        self._begun: dict[RunKey, float] = {}  # when each run began, by `time.monotonic`
        self._lock = threading.Lock()

    def begin(self, key: RunKey) -> None:
        self._begun[key] = time.monotonic()

    def grow(self, key: RunKey, so_far: SoFar) -> None:
        """Print the latest epoch of a run that is being made, if nothing was printed for `QUIET_SECONDS`."""
        with self._lock:
            if so_far.epochs and time.monotonic() - self._told >= QUIET_SECONDS:
                epoch = so_far.epochs[-1]
                self._say(key, f"epoch {epoch.epoch} of {self._num_epochs[key.variant]}, {epoch.train_seconds:.2f} s")

    def end(self, key: RunKey, record: RunRecord) -> None:
        """Print the seconds and the result of a finished run, and a forecast of the time left."""
        with self._lock:
            seconds = time.monotonic() - self._begun[key]
            self._seconds[key.variant].append(seconds)
            accuracy = record.scores.test_accuracy
            outcome = record.outcome.replace("_", " ") if accuracy is None else f"test accuracy {accuracy:.4f}"
            left_seconds = self._seconds_left(self._missing[self._num_made + 1 :])
            self._say(key, f"{seconds:.0f} s · {outcome} · {_left(left_seconds)}")
            self._num_made += 1

    def _seconds_left(self, waiting: Sequence[RunKey]) -> float:
        known = {variant: mean(seconds) for variant, seconds in self._seconds.items()}
        return sum(known.get(key.variant, mean(known.values())) for key in waiting) / self._num_at_once

    def _say(self, key: RunKey, text: str) -> None:
        where = f"run {self._num_made + 1} of {len(self._missing)}"
        print(f"{where} · {key.benchmark} {key.variant} seed {key.seed} · {text}", flush=True)
        self._told = time.monotonic()


def _left(seconds: float) -> str:
    if not seconds:
        return "the last"
    return f"about {duration(seconds)} left in this stage" if seconds >= 60 else "less than a minute left in this stage"
