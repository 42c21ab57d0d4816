"""Read a CSV file with one run per row, written by hand or exported from an experiment tracker."""

import csv
import difflib
import io
import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from pipeline.comparison.tables import Row
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, excerpt, read_bytes

COLUMNS = ("variant", "seed", "seconds", "diverged")  # besides the metric; the last two are optional
NO_NUMBER = ("", "nan", "none", "null", "na", "n/a", "diverged")
# How a run ended, in the words of W&B, MLflow, Optuna, Ray and Slurm, or as yes or no.
ENDED_WELL = (
    "",
    "false",
    "0",
    "no",
    "ok",
    "finished",
    "complete",
    "completed",
    "success",
    "succeeded",
    "done",
    "terminated",
)
FAILED = (
    *("true", "1", "yes", "diverged", "crashed", "failed", "fail", "failure", "error", "errored", "killed", "pruned"),
    *("preempted", "preempting", "cancelled", "canceled", "stopped", "aborted", "timeout", "out_of_memory", "oom"),
    *("out_of_me", "node_fail", "nodefail", "paused", "running", "waiting", "pending", "scheduled", "queued"),
)
STATE_COLUMNS = ("diverged", "state", "status", "outcome", "trial_status")
MAX_ROWS, MAX_VARIANTS, MAX_FAULTS = 100_000, 100, 30
_REMEDY = Remedy("Give a CSV file with a row a run", "A table has a row a run")


def read_runs(path: Path, metric: str, baseline: str, columns: Mapping[str, str]) -> list[Row]:
    """Return the runs of a CSV file, with `variant`, `seed`, `outcome`, `result`, `seconds` and `unit`.

    A run whose state is a failure has no result, whatever its row holds. `unit` is the value of a result's last digit.

    Args:
        metric: the column with the results.
        columns: the file's own names for `variant`, `seed`, `seconds` and `diverged`, if they differ.

    Raises:
        InputError: names every fault, by line and column.
    """
    try:
        lines = list(itertools.islice(_lines(path), MAX_ROWS + 2))
    except (csv.Error, ValueError) as error:
        raise InputError(f"{excerpt(path)} can't be judged: {error}") from None
    header, rows = lines[0][1] if lines else [], lines[1:]
    called = {name: columns.get(name, name) for name in COLUMNS} | {"result": metric}
    called = {name: unicodedata.normalize("NFC", column) for name, column in called.items()}
    wanted = [called["variant"], called["seed"], called["result"], *(called[name] for name in columns)]
    faults = _faults_of_columns(header, wanted) if header else []
    if not 0 < len(rows) <= MAX_ROWS:
        many = f"it has more than {MAX_ROWS:,} rows: a row is a run, not an epoch or a step"
        faults.append(many if rows else "it has no row")
    runs: dict[int, Row] = {}
    if not faults:
        width = len(header)
        table = {line: dict(zip(header, cells, strict=True)) for line, cells in rows if len(cells) == width}
        faults += [f"line {line}: {len(cells)} cells for {width} columns" for line, cells in rows if line not in table]
        states = [called["diverged"]] if "diverged" in columns else _state_columns(header)
        for line, row in table.items():
            found = list(_faults_of_row(row, called, states))
            faults += [f"line {line}, column {fault}" for fault in found]
            if not found:
                runs[line] = _run(row, called, states)
        faults += _faults_of_variants(list(dict.fromkeys(run.variant for run in runs.values())), baseline)
        faults += _faults_together(runs, called)
    if faults:
        more = [f"and {len(faults) - MAX_FAULTS:,} more"] if len(faults) > MAX_FAULTS else []
        raise InputError("\n  ".join([f"{excerpt(path)} can't be judged:", *map(excerpt, faults[:MAX_FAULTS]), *more]))
    return list(runs.values())


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of every line that is not empty; the first line names the columns."""
    content = read_bytes(path, _REMEDY)
    encoding = "UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "UTF-8"
    if encoding == "UTF-8" and b"\0" in content:
        raise ValueError("it is no text. Save the table as CSV, in UTF-8")
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not {encoding}. Save the table as CSV, in UTF-8") from None
    text = unicodedata.normalize("NFC", text)
    separator = max(",;\t|", key=text.lstrip().partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    for cells in reader:
        if any(cells):
            yield reader.line_num, [cell.strip() for cell in cells]


def _faults_of_columns(header: Sequence[str], wanted: Sequence[str]) -> list[str]:
    twice = sorted({name for name in header if header.count(name) > 1 and name in wanted})
    faults = [f"line 1: the column {name} stands twice" for name in twice]
    for name in dict.fromkeys(wanted):
        if name not in header:
            near = difflib.get_close_matches(name, header, 1)
            has = f"did you mean {near[0]}?" if near else f"it has {', '.join(header) or 'none'}"
            faults.append(f"line 1: no column {name}; {has}")
    return faults


def _state_columns(header: Sequence[str]) -> list[str]:
    """Return the columns that usually tell how a run ended, by name."""
    return [name for name in header if name.casefold() in STATE_COLUMNS]


def _state(cell: str) -> str:
    """Return the known word that a cell begins with, as in "cancelled" for "CANCELLED by 1001"; else the cell."""
    word = re.sub(r"[\s-]+", "_", cell.removeprefix("TrialState.").strip().casefold())
    return next((known for known in FAILED if len(known) > 3 and word.startswith(known)), word)


def _faults_of_row(row: Mapping[str, str], called: Mapping[str, str], states: Sequence[str]) -> Iterator[str]:
    for name in ("variant", "seed"):
        if not row[called[name]]:
            yield f"{called[name]}: empty"
    for name in states:
        if _state(row[name]) not in (*ENDED_WELL, *FAILED):
            yield f"{name}: {row[name]!r} is no state that is known, as finished or crashed are"
    for name in ("result", "seconds"):
        cell = row.get(called[name], "")
        if cell.lower() not in NO_NUMBER and _number(cell) is None:
            yield f"{called[name]}: {cell!r} is no number. Decimals follow a point"
        if name == "seconds" and (_number(cell) or 1.0) <= 0:
            yield f"{called[name]}: {cell!r} is no time"


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _run(row: Mapping[str, str], called: Mapping[str, str], states: Sequence[str]) -> Row:
    cell = row[called["result"]]
    result, failed = _number(cell), [state for name in states if (state := _state(row[name])) in FAILED]
    seconds = _number(row.get(called["seconds"], ""))
    outcome = "completed"
    if failed:
        outcome = "diverged" if failed[0] in ("true", "1", "yes") else failed[0]
    elif cell.lower() == "diverged" or (result is not None and not math.isfinite(result)):
        outcome = "diverged" if cell.lower() != "nan" else "without a number"
    elif result is None:
        outcome = "without a number"
    is_completed = outcome == "completed"
    decimals = cell.lower().partition("e")[0].partition(".")[2].rstrip("0")
    exponent = int(cell.lower().partition("e")[2] or 0) if is_completed else 0
    return Row(
        variant=row[called["variant"]],
        seed=re.sub(r"\.0+$", "", row[called["seed"]]),  # pandas writes 1.0 if another row has no seed
        outcome=outcome,
        result=result if is_completed else None,
        seconds=seconds if is_completed and seconds and math.isfinite(seconds) else None,
        unit=10.0 ** (exponent - len(decimals)),
        precision=None,
        final_weights_sha256=None,
        num_predicted_classes=None,
    )


def _faults_of_variants(variants: Sequence[str], baseline: str) -> list[str]:
    if len(variants) > MAX_VARIANTS:
        return [f"it has {len(variants):,} variants, of {MAX_VARIANTS} at most"]
    if variants and baseline not in variants:
        return [f"no variant {baseline}, the baseline; it has {', '.join(variants)}"]
    return [f"no variant but {baseline}, and nothing to set beside it"] if len(variants) == 1 else []


def _faults_together(runs: Mapping[int, Row], called: Mapping[str, str]) -> list[str]:
    """Return faults between runs that are right on their own: repeated seeds, and fractions among percentages."""
    faults: list[str] = []
    first: dict[tuple[str, str], int] = {}
    completed = {line: run for line, run in runs.items() if run.outcome == "completed"}
    for line, run in completed.items():
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
