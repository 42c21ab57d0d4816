"""Read a table of anyone's runs, a row a run, and name all of its faults at once."""

import csv
import difflib
import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, excerpt, read_bytes

MAX_ROWS, MAX_VARIANTS, MAX_FAULTS = 100_000, 100, 30
COMPLETED = ("", "completed", "finished")
FAILURES = ("diverged", "out_of_memory", "too_slow", "failed", "crashed")
_MARKS = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_REMEDY = Remedy("Give a CSV or Parquet file with a row a run", "A table has a row a run")


class TableRun(NamedTuple):
    """Hold a run: its metric and, where they are known, its seconds; or how it failed."""

    place: str
    variant: str
    seed: str
    value: float
    seconds: float | None
    failure: str | None


def read_runs(path: Path, metric: str, baseline: str, columns: Mapping[str, str]) -> list[TableRun]:
    """Return the runs of a CSV or Parquet file.

    A run without a number has failed, and so has one marked so by its cell, by a column `diverged` or by `outcome`.

    Args:
        metric: the column that is judged.
        columns: how `variant`, `seed`, `seconds`, `diverged` and `outcome` are called where they are not called so.

    Raises:
        InputError: names every fault, by line and column.
    """
    unit, header, rows = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    names = {name: columns.get(name, name) for name in ("variant", "seed", "seconds", "diverged", "outcome")}
    faults = [f"line 1: the column {name} stands twice" for name in sorted({n for n in header if header.count(n) > 1})]
    for name in dict.fromkeys((names["variant"], names["seed"], metric, *columns.values())):
        if name not in header:
            near = difflib.get_close_matches(name, header, 1)
            has = f"did you mean {near[0]}?" if near else f"it has {', '.join(header) or 'none'}"
            faults.append(f"no column {name}: {has}")
    if not rows:
        faults.append("it has no row")
    if len(rows) > MAX_ROWS:
        faults.append(f"it has {len(rows):,} rows, of {MAX_ROWS:,} at most: a row is a run, not an epoch or a step")
    if not faults:
        runs = [_run(f"{unit} {number}", cells, header, metric, names, faults) for number, cells in rows]
        found = [run for run in runs if run]
        faults += _faults_together(found, metric, baseline, names)
    if faults:
        more = [f"and {len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
        raise InputError("\n  ".join([f"{excerpt(path)} can't be judged:", *map(excerpt, faults[:MAX_FAULTS]), *more]))
    return found


Rows = tuple[str, list[str], Sequence[tuple[int, Sequence[str]]]]


def _csv(path: Path) -> Rows:
    """Return columns and rows of text, in UTF-8 or UTF-16, separated by what stands most often in the first line."""
    content = read_bytes(path, _REMEDY)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{excerpt(path)} can't be judged: line {line} is not {encoding[:6]}. Save it as UTF-8"
        ) from None
    first = text.lstrip().partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t|", key=first.count))
    try:
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise InputError(f"{excerpt(path)} can't be judged: line {reader.line_num}: {error}") from None
    return "line", lines[0][1] if lines else [], lines[1:]


def _parquet(path: Path) -> Rows:
    import pyarrow  # for those who have such a file
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(io.BytesIO(read_bytes(path, _REMEDY))) as file:
            if file.metadata.num_rows > MAX_ROWS:
                return "row", file.schema_arrow.names, [(0, ())] * file.metadata.num_rows
            table = file.read()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{excerpt(path)} is no Parquet file ({excerpt(error)})") from None
    columns = [
        ["" if value is None else str(value).strip() for value in column.to_pylist()] for column in table.columns
    ]
    return "row", table.column_names, list(enumerate(zip(*columns, strict=True), start=1))


def _run(
    place: str, cells: Sequence[str], header: list[str], metric: str, names: Mapping[str, str], faults: list[str]
) -> TableRun | None:
    """Return the run of a row, or None and its faults."""
    if len(cells) != len(header):
        faults.append(f"{place}: {len(cells)} cells, where the table has {len(header)} columns")
        return None
    row, before = dict(zip(header, cells, strict=True)), len(faults)
    cell = {name: row.get(column, "") for name, column in names.items()}
    faults += [f"{place}, column {names[name]}: empty" for name in ("variant", "seed") if not cell[name]]
    outcome, mark, text = cell["outcome"].lower(), cell["diverged"].lower(), row[metric].lower()
    if outcome not in COMPLETED + FAILURES:
        faults.append(f"{place}, column {names['outcome']}: '{outcome}' is none of completed, {', '.join(FAILURES)}")
    if mark not in _MARKS:
        faults.append(f"{place}, column {names['diverged']}: '{mark}' is neither true nor false")
    failure = outcome if outcome in FAILURES else "diverged" if _MARKS.get(mark) or text == "diverged" else None
    if not failure and text in ("", "nan", "none", "null", "na", "n/a"):
        failure = "no number"
    value = math.nan if failure else _number(text, f"{place}, column {metric}", faults)
    seconds = (
        None
        if failure or not cell["seconds"]
        else _number(cell["seconds"], where := f"{place}, column {names['seconds']}", faults)
    )
    if seconds is not None and seconds <= 0:
        faults.append(f"{where}: {seconds:g} seconds are no time")
    seed = re.sub(r"\.0+$", "", cell["seed"])  # pandas writes 1.0 where a seed is missing elsewhere
    return None if len(faults) > before else TableRun(place, cell["variant"], seed, value, seconds, failure)


def _number(text: str, where: str, faults: list[str]) -> float:
    try:
        value = float(text)
    except ValueError:
        comma = ". Decimals follow a point" if re.fullmatch(r"[-+]?\d+,\d+", text) else ""
        faults.append(f"{where}: '{text}' is no number{comma}")
        return math.nan
    if not math.isfinite(value) or abs(value) > 1e100:
        faults.append(f"{where}: '{text}' is infinite. Leave the cell empty if the run failed")
    return value


def _faults_together(runs: list[TableRun], metric: str, baseline: str, names: Mapping[str, str]) -> list[str]:
    """Return what is wrong with rows that are each right."""
    faults: list[str] = []
    first: dict[tuple[str, str], TableRun] = {}
    for run in runs:
        earlier = first.setdefault((run.variant, run.seed), run)
        if earlier is not run:
            twice = f"{run.variant} has seed {run.seed} in {earlier.place} already"
            faults.append(f"{run.place}, column {names['seed']}: {twice}")
    variants = list(dict.fromkeys(run.variant for run in runs))
    if len(variants) > MAX_VARIANTS:
        return [f"column {names['variant']}: {len(variants):,} variants, of {MAX_VARIANTS} at most"]
    if baseline not in variants:
        faults.append(f"column {names['variant']}: no baseline {baseline}; it has {', '.join(variants) or 'none'}")
    elif len(variants) == 1:
        faults.append(f"column {names['variant']}: {baseline} alone, and nothing to set beside it")
    known = [run for run in runs if not run.failure]
    large = [run.value for run in known if run.value > 1]
    if large:
        percent = median(large)
        faults += [
            f"{run.place}, column {metric}: {run.value:g} is a fraction, where others are percent, as {percent:g}"
            for run in known
            if 0 < run.value <= 1 < percent and abs(100 * run.value - percent) <= 0.1 * percent
        ]
    return faults
