"""Judge anyone's runs as those of a study are judged: every candidate beside the baseline, failures counted."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pipeline.comparison.run_table import TableRun
from pipeline.statistics import equivalence, intervals, unpaired
from pipeline.statistics.equivalence import Design, Equivalence, adjust, margin_means_something
from pipeline.statistics.intervals import Difference, Mean, Proportion, Ratio, Statistic

Status = Literal[0, 20, 30]


class Question(NamedTuple):
    """Say what is asked: is `metric` within ±`margin` of the baseline's, in its own unit?"""

    metric: str
    baseline: str
    margin: float
    lower_is_better: bool = False
    one_sided: bool = False


class Beside(Statistic):
    """A candidate beside the baseline. The test is in the metric's unit, its speed a ratio of the runs' seconds.

    `holds_from` is the smallest margin at which these runs show equivalence, whatever the other candidates show.
    """

    difference: Difference
    test: Equivalence
    design: Design
    is_near_chance: bool
    is_selection: bool
    holds_from: float | None
    speed: Ratio


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
    def candidates(self) -> list[tuple[str, Beside]]:
        return [(row.variant, row.beside) for row in self.rows if row.beside]

    @property
    def status(self) -> Status:
        """Return the exit status, by the worst candidate: 20 one is different, 30 one is open, 0 all are equivalent."""
        outcomes = {beside.test.outcome for _, beside in self.candidates}
        return 20 if "different" in outcomes else 30 if "inconclusive" in outcomes else 0


class _Both(NamedTuple):
    """Hold the values of the baseline and a candidate; paired ones stand at the same place."""

    baseline: np.ndarray
    candidate: np.ndarray


def judge(runs: Sequence[TableRun], question: Question) -> TableVerdict:
    """Return the verdict: paired by seed where every variant has the same seeds, else by Welch's test."""
    variants = {run.variant: {r.seed: r for r in runs if r.variant == run.variant} for run in runs}
    theirs = variants[question.baseline]
    is_paired = all(ours.keys() == theirs.keys() for ours in variants.values())
    names = [name for name in variants if name != question.baseline]
    sign = -1.0 if question.lower_is_better else 1.0
    both = [_both(theirs, variants[name], "value", is_paired) for name in names]
    design = Design(is_one_sided=question.one_sided)
    gains = [_Both(sign * pair.baseline, sign * pair.candidate) for pair in both]
    contrasts = [unpaired.contrast(*pair) for pair in gains]
    found = [
        equivalence.p_values(pair.candidate - pair.baseline, question.margin, design)
        if is_paired
        else unpaired.p_values(contrast, question.margin, question.one_sided)
        for pair, contrast in zip(gains, contrasts, strict=True)
    ]
    rows = [_row(question.baseline, theirs, None)]
    near_chance = _is_near_chance(theirs, question)
    for name, pair, gain, contrast, adjusted in zip(
        names, both, gains, contrasts, adjust(found, [0] * len(found)), strict=True
    ):
        failed = any(run.failure for run in (*theirs.values(), *variants[name].values()))
        common = (question.margin, len(names), adjusted, failed or near_chance)
        times = [np.log(values) for values in _both(theirs, variants[name], "seconds", is_paired)]
        if is_paired:
            values = gain.candidate - gain.baseline
            difference = intervals.difference(pair.candidate - pair.baseline, adjusted.differs)
            test = equivalence.equivalence(values, *common, design)
            speed, of_test = intervals.ratio(times[0] - times[1]), design
            level = 1 - 0.1 / len(names)
            ends = intervals.mean_interval(values, level) if test.p_value is not None else None
        else:
            difference = unpaired.difference(unpaired.contrast(*pair), adjusted.differs)
            test = unpaired.equivalence(contrast, *common, question.one_sided)
            speed = unpaired.ratio(unpaired.contrast(times[1], times[0]))
            of_test = Design(question.one_sided, contrast.freedom_per_seed)
            ends = contrast.interval(1 - 0.1 / len(names))
        low, high = ends or (math.nan, math.nan)
        holds_from = max(0.0, -low) if question.one_sided else max(-low, high)
        beside = Beside(
            difference=difference,
            test=test,
            design=of_test,
            is_near_chance=near_chance,
            is_selection=failed,
            holds_from=None if math.isnan(holds_from) or failed or near_chance else holds_from,
            speed=speed,
        )
        rows.append(_row(name, variants[name], beside))
    return TableVerdict(question=question, is_paired=is_paired, rows=rows)


def as_json(verdict: TableVerdict) -> dict[str, Any]:
    """Return the verdict as plain data, each number in the metric's own unit."""
    asked = verdict.question._asdict()
    rows = []
    for row in verdict.rows:
        told = row.model_dump()
        if row.beside:
            test = {name.removesuffix("_pp"): value for name, value in row.beside.test.model_dump().items()}
            told["beside"] |= {"test": test, "design": row.beside.design._asdict()}
        rows.append(told)
    return {"schema_version": 1, "status": verdict.status, **asked, "paired": verdict.is_paired, "variants": rows}


def _both(theirs: dict[str, TableRun], ours: dict[str, TableRun], name: str, is_paired: bool) -> _Both:
    """Return the values of both variants where they are known; of pairs, where both are."""
    known = [
        {seed: getattr(run, name) for seed, run in runs.items() if not run.failure and getattr(run, name) is not None}
        for runs in (theirs, ours)
    ]
    if is_paired:
        seeds = [seed for seed in known[0] if seed in known[1]]
        known = [{seed: values[seed] for seed in seeds} for values in known]
    return _Both(*(np.array(list(values.values()), dtype=np.float64) for values in known))


def _is_near_chance(theirs: dict[str, TableRun], question: Question) -> bool:
    """Tell whether the margin is wide beside a baseline that is a share, in percent or not, and better when higher."""
    values = [run.value for run in theirs.values() if not run.failure]
    if question.lower_is_better or not values or not 0 <= min(values) <= max(values) <= 100:
        return False
    return not margin_means_something(100 * question.margin, float(np.mean(values)))


def _row(name: str, runs: dict[str, TableRun], beside: Beside | None) -> Row:
    completed = [run.value for run in runs.values() if not run.failure]
    return Row(
        variant=name,
        mean=intervals.mean(completed),
        failed=intervals.proportion(len(runs) - len(completed), len(runs)),
        failures=dict(Counter(run.failure for run in runs.values() if run.failure)),
        beside=beside,
    )
