"""Judge anyone's runs as those of a study are judged: every candidate beside the baseline, failures counted."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from pipeline.comparison.run_table import TableRun
from pipeline.statistics import intervals
from pipeline.statistics.contrasts import Contrast, difference, paired, ratio, unpaired
from pipeline.statistics.equivalence import (
    SIGNIFICANCE_LEVEL,
    Design,
    Equivalence,
    adjust,
    equivalence,
    margin_means_something,
    p_values,
)
from pipeline.statistics.intervals import Difference, Mean, Proportion, Ratio, Statistic


class Question(Statistic):
    """Ask whether `metric` lies within ±`margin` of the baseline's, in its own unit; or, one-sided, is no worse."""

    metric: str
    baseline: str
    margin: float
    is_lower_better: bool = False
    is_one_sided: bool = False


class Beside(Statistic):
    """A candidate beside the baseline. Its difference is in the metric's unit, its speed a ratio of the runs' seconds.

    `is_open_because` says why no number of seeds shows equivalence. `holds_from` is the smallest margin at which these
    runs show it, whatever the other candidates show.
    """

    difference: Difference
    test: Equivalence
    speed: Ratio
    is_open_because: Literal["runs failed", "the margin is wide"] | None
    holds_from: float | None
    design: Design = Field(exclude=True)


class Row(Statistic):
    """A variant by itself and, unless it is the baseline, beside that. Means are over runs that completed."""

    variant: str
    mean: Mean
    failed: Proportion
    failures: dict[str, int]
    beside: Beside | None


class TableVerdict(Statistic):
    question: Question
    is_paired: bool
    rows: list[Row]

    @property
    def status(self) -> int:
        """Return the exit status, by the worst candidate: 20 one is different, 30 one is open, 0 all are equivalent."""
        outcomes = {row.beside.test.outcome for row in self.rows if row.beside}
        return 20 if "different" in outcomes else 30 if "inconclusive" in outcomes else 0


Runs = Mapping[str, TableRun]


def judge(runs: Sequence[TableRun], asked: Question) -> TableVerdict:
    """Return the verdict: paired by seed where every variant has the same seeds, else by Welch's test."""
    variants: dict[str, dict[str, TableRun]] = {}
    for run in runs:
        variants.setdefault(run.variant, {})[run.seed] = run
    theirs = variants.pop(asked.baseline)
    is_paired = all(ours.keys() == theirs.keys() for ours in variants.values())
    contrasts = [_contrast(theirs, ours, is_paired, lambda run: run.result) for ours in variants.values()]
    sign = -1 if asked.is_lower_better else 1
    gains = [found._replace(mean=sign * found.mean) for found in contrasts]
    adjusted = adjust([p_values(gain, asked.margin, asked.is_one_sided) for gain in gains], [0] * len(gains))
    rows = [_row(asked.baseline, theirs, None)]
    for (name, ours), found, gain, of_family in zip(variants.items(), contrasts, gains, adjusted, strict=True):
        is_open_because = _is_open_because(theirs, ours, asked)
        beside = Beside(
            difference=difference(found, of_family.differs),
            test=equivalence(
                gain, asked.margin, len(gains), of_family, is_open_because is not None, asked.is_one_sided
            ),
            speed=ratio(_contrast(ours, theirs, is_paired, lambda run: run.seconds and math.log(run.seconds))),
            is_open_because=is_open_because,
            holds_from=None if is_open_because else _holds_from(gain, len(gains), asked),
            design=Design(asked.is_one_sided, found.freedom_per_seed),
        )
        rows.append(_row(name, ours, beside))
    return TableVerdict(question=asked, is_paired=is_paired, rows=rows)


def _contrast(theirs: Runs, ours: Runs, is_paired: bool, number: Callable[[TableRun], float | None]) -> Contrast:
    """Set our numbers beside theirs, where they are known; of pairs, where both are."""
    known = [
        {seed: value for seed, run in runs.items() if (value := number(run)) is not None} for runs in (theirs, ours)
    ]
    if is_paired:
        return paired([known[1][seed] - value for seed, value in known[0].items() if seed in known[1]])
    return unpaired(*(np.array(list(values.values()), dtype=np.float64) for values in known))


def _is_open_because(theirs: Runs, ours: Runs, asked: Question) -> Literal["runs failed", "the margin is wide"] | None:
    """Tell why equivalence can't be shown: what is left is a selection, or the baseline is near chance.

    The latter is looked at where a metric may be a share, in percent or not, that is better when higher.
    """
    if any(run.failure for run in (*theirs.values(), *ours.values())):
        return "runs failed"
    values = [run.result for run in theirs.values() if run.result is not None]
    if asked.is_lower_better or not 0 <= min(values) <= max(values) <= 100:
        return None
    return None if margin_means_something(100 * asked.margin, float(np.mean(values))) else "the margin is wide"


def _holds_from(gain: Contrast, num_candidates: int, asked: Question) -> float | None:
    found = gain.interval(1 - 2 * SIGNIFICANCE_LEVEL / num_candidates)
    return found and (max(0.0, -found.low) if asked.is_one_sided else max(-found.low, found.high))


def _row(name: str, runs: Runs, beside: Beside | None) -> Row:
    failures = Counter(run.failure for run in runs.values() if run.failure)
    return Row(
        variant=name,
        mean=intervals.mean([run.result for run in runs.values() if run.result is not None]),
        failed=intervals.proportion(failures.total(), len(runs)),
        failures=dict(failures),
        beside=beside,
    )
