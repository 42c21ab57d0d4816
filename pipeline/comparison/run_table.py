"""Read a table of anyone's runs, a row a run, and judge it as a study is judged: candidates beside the baseline."""

import csv
import difflib
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, ValidationError
from pydantic_core import ErrorDetails

from pipeline.errors import InputError
from pipeline.files.characters import escape_deceptive
from pipeline.files.untrusted import Remedy, excerpt, read_bytes
from pipeline.statistics import intervals
from pipeline.statistics.equivalence import (
    SIGNIFICANCE_LEVEL,
    Contrast,
    Design,
    Equivalence,
    adjust,
    difference,
    equivalence,
    margin_means_something,
    p_values,
    paired,
    ratio,
    unpaired,
)
from pipeline.statistics.intervals import Difference, Mean, Proportion, Ratio, Statistic

COLUMNS = ("variant", "seed", "seconds", "diverged")
NO_NUMBER = ("", "nan", "none", "null", "na", "n/a", "diverged")
MAX_ROWS, MAX_VARIANTS, MAX_FAULTS = 100_000, 100, 30
_TOO_MANY = f"it has more than {MAX_ROWS:,} rows: a row is a run, not an epoch or a step"
_IN_WORDS = {
    "string_too_short": "empty",
    "float_parsing": "no number. Decimals follow a point",
    "bool_parsing": "neither true nor false",
    "finite_number": "infinite. Leave the cell empty if the run failed",
}
_REMEDY = Remedy("Give a CSV file with a row a run", "A table has a row a run")


class TableRun(BaseModel):
    """Hold a run: its result and, where they are known, its seconds."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)
    variant: str = Field(min_length=1)
    seed: str = Field(min_length=1)
    result: float | None = Field(None, gt=-1e100, lt=1e100)
    seconds: PositiveFloat | None = None
    diverged: bool = False

    @property
    def failure(self) -> str | None:
        return "diverged" if self.diverged else "without a number" if self.result is None else None


def read_runs(path: Path, metric: str, baseline: str, columns: Mapping[str, str]) -> list[TableRun]:
    """Return the runs of a CSV file.

    Args:
        metric: the column with the results.
        columns: how `variant`, `seed`, `seconds` and `diverged` are called where they are not called so.

    Raises:
        InputError: names every fault, by line and column.
    """
    try:
        lines = list(itertools.islice(_lines(path), MAX_ROWS + 2))
    except (csv.Error, ValueError) as error:
        raise InputError(f"{excerpt(path)} can't be judged: {error}") from None
    header, rows = lines[0][1] if lines else [], lines[1:]
    called = {name: columns.get(name, name) for name in COLUMNS} | {"result": metric}
    faults = (
        _faults_of_columns(header, [called["variant"], called["seed"], metric, *columns.values()]) if header else []
    )
    if not 0 < len(rows) <= MAX_ROWS:
        faults.append(_TOO_MANY if rows else "it has no row")
    runs: dict[int, TableRun] = {}
    if not faults:
        width = len(header)
        table = {line: dict(zip(header, cells, strict=True)) for line, cells in rows if len(cells) == width}
        faults += [f"line {line}: {len(cells)} cells for {width} columns" for line, cells in rows if line not in table]
        for line, row in table.items():
            try:
                runs[line] = _run(row, called)
            except ValidationError as error:
                faults += [f"line {line}, column {_describe(fault, called)}" for fault in error.errors()]
        variants = list(dict.fromkeys(row[called["variant"]] for row in table.values()))
        faults += _faults_of_variants(variants, baseline)
        faults += _faults_together(runs, called)
    if faults:
        more = [f"and {len(faults) - MAX_FAULTS:,} more"] if len(faults) > MAX_FAULTS else []
        raise InputError("\n  ".join([f"{excerpt(path)} can't be judged:", *map(excerpt, faults[:MAX_FAULTS]), *more]))
    return list(runs.values())


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Return number and cells of every line that has any; the first names the columns."""
    content = read_bytes(path, _REMEDY)
    encoding = "UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "UTF-8"
    if encoding == "UTF-8" and b"\0" in content:
        raise ValueError("it is no text. Save the table as CSV, in UTF-8")
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not {encoding}. Save the table as CSV, in UTF-8") from None
    separator = max(",;\t|", key=text.lstrip().partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    for cells in reader:
        if any(cells):
            yield reader.line_num, [escape_deceptive(cell.strip()) for cell in cells]


def _faults_of_columns(header: Sequence[str], wanted: Sequence[str]) -> list[str]:
    faults = [f"line 1: the column {name} stands twice" for name in sorted({n for n in header if header.count(n) > 1})]
    for name in dict.fromkeys(wanted):
        if name not in header:
            near = difflib.get_close_matches(name, header, 1)
            has = f"did you mean {near[0]}?" if near else f"it has {', '.join(header) or 'none'}"
            faults.append(f"line 1: no column {name}; {has}")
    return faults


def _run(row: Mapping[str, str], called: Mapping[str, str]) -> TableRun:
    """Return the run of a row; one that failed has neither result nor seconds."""
    cells: dict[str, str | None] = {name: row.get(column) or None for name, column in called.items()}
    cells["seed"] = re.sub(r"\.0+$", "", row[called["seed"]])  # pandas writes 1.0 where a seed is missing elsewhere
    result = row[called["result"]].lower()
    if result in NO_NUMBER:
        cells["result"] = None
    if result == "diverged" or not cells["diverged"]:
        cells["diverged"] = str(result == "diverged")
    run = TableRun.model_validate(cells | {"variant": row[called["variant"]]})
    return run.model_copy(update={"result": None, "seconds": None}) if run.failure else run


def _describe(fault: ErrorDetails, called: Mapping[str, str]) -> str:
    return f"{called[str(fault['loc'][0])]}: '{fault['input']}': {_IN_WORDS.get(fault['type'], fault['msg'])}"


def _faults_of_variants(variants: Sequence[str], baseline: str) -> list[str]:
    if len(variants) > MAX_VARIANTS:
        return [f"it has {len(variants):,} variants, of {MAX_VARIANTS} at most"]
    if variants and baseline not in variants:
        return [f"no variant {baseline}, the baseline; it has {', '.join(variants)}"]
    return [f"no variant but {baseline}, and nothing to set beside it"] if len(variants) == 1 else []


def _faults_together(runs: Mapping[int, TableRun], called: Mapping[str, str]) -> list[str]:
    """Return what is wrong with runs that are each right."""
    faults: list[str] = []
    first: dict[tuple[str, str], int] = {}
    for line, run in runs.items():
        earlier = first.setdefault((run.variant, run.seed), line)
        if earlier != line:
            twice = f"{run.variant} has seed {run.seed} in line {earlier} already"
            faults.append(f"line {line}, column {called['seed']}: {twice}")
    percent = median([run.result for run in runs.values() if run.result and run.result > 1] or [0])
    faults += [
        f"line {line}, column {called['result']}: {run.result:g} is a fraction, where others are percent: {percent:g}"
        for line, run in runs.items()
        if run.result and run.result < 1 and percent > 10 and abs(100 * run.result - percent) < percent / 2
    ]
    return faults


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
