"""Read a user's runs from a CSV file with one run per row, or from a CSV file per run."""

import csv
import io
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.comparison.tables import Row
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt, read_bytes

COLUMNS = ("variant", "seed", "seconds", "diverged")  # besides the metric; the last two are optional
NO_NUMBER = ("", "nan", "none", "null", "na", "n/a", "diverged")
# States of a run that ended well, in the words of W&B, MLflow, Optuna, Ray and Slurm, or a "no" under `diverged`. Every
# other state is a failure.
ENDED_WELL = (
    *("", "finished", "complete", "completed", "success", "succeeded", "done", "terminated", "ok"),
    *("false", "0", "no"),
)
YES = ("true", "1", "yes")  # values in a state column that mean that the run diverged
STATE_COLUMNS = ("diverged", "state", "status", "outcome", "trial_status")
FAILURE_COLUMNS = ("failed", "crashed", "exit_code", "exitcode", "returncode")  # 0 and false: the run ended well
SUMMARIES = ("mean", "average", "avg", "median", "std", "stdev", "sd", "min", "max", "best", "sum", "total")
STEP_COLUMNS = ("epoch", "step", "_step", "global_step", "iteration")  # in a table with a row for each epoch or step
STANDARD_INPUT = Path("-")
MAX_FAULTS = 30
_REMEDY = "Give a CSV file with a row a run"


def read_runs(path: Path, metric: str, baseline: str, columns: Mapping[str, str]) -> list[Row]:
    """Return the runs of a CSV file, with `variant`, `seed`, `outcome`, `result`, `seconds` and `unit`.

    The path `-` stands for standard input. A path that contains `{variant}` and `{seed}` stands for one file per run.
    The result of such a run is in the last row that has a value of the metric.

    The `result` of a failed run is None, even if the row has a number. `unit` is the place value of the last digit of
    the result. Zeros at the end of the decimals do not count: the unit of 91.30 is 0.1.

    Args:
        metric: the name of the column with the results.
        baseline: the variant with which the others are compared.
        columns: the file's names for `variant`, `seed`, `seconds` and `diverged`, where they differ from these words.

    Raises:
        InputError: the file is missing or is no valid table of runs. The message lists up to `MAX_FAULTS` faults.
    """
    header, lines = _last_rows(path, metric) if "{variant}" in str(path) else _lines(path)
    called = {name: columns.get(name, name) for name in COLUMNS} | {"result": metric}
    states = [name for name in header if name.casefold() in (*STATE_COLUMNS, *FAILURE_COLUMNS)]
    states = [called["diverged"]] if "diverged" in columns else states
    optional = [name for name in (called["seconds"], *states) if name in header]
    wanted = dict.fromkeys([called["variant"], called["seed"], metric, *columns.values(), *optional])
    faults = [
        f"line 1: {header.count(name) or 'no'} column {name}; it has {', '.join(header) or 'none'}"
        for name in wanted
        if header.count(name) != 1
    ]
    if faults:
        faults.append("name columns by --columns variant=NAME seed=NAME, and the metric by --metric NAME")
    runs: dict[int, Row] = {}
    if not faults:
        steps = [name for name in header if name.casefold() in STEP_COLUMNS]
        if steps and _is_history([dict(zip(header, cells, strict=False)) for _, cells in lines], called, steps[0]):
            raise InputError(
                f"{path} can't be judged: it has a row for each {steps[0]} of a run. Keep one row a run, the one with "
                "the result: the last"
            )
        for line, cells in lines:
            if len(cells) != len(header):
                faults.append(f"line {line}: {len(cells)} cells for {len(header)} columns")
                continue
            row = dict(zip(header, cells, strict=True))
            found = [f"line {line}, column {fault}" for fault in _faults_of_row(row, called)]
            faults += found
            if not found:
                runs[line] = _run(row, called, states)
        faults += _faults_together(runs, called, baseline)
    if faults:
        more = [f"and {len(faults) - MAX_FAULTS:,} more"] if len(faults) > MAX_FAULTS else []
        raise InputError("\n  ".join([f"{path} can't be judged:", *map(excerpt, faults[:MAX_FAULTS]), *more]))
    return list(runs.values())


def _lines(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the column names, and the line number and the cells of each later line that is not empty.

    Raises:
        InputError: the file is missing, too large, or not CSV in UTF-8.
    """
    try:
        content = sys.stdin.buffer.read() if path == STANDARD_INPUT else read_bytes(path, _REMEDY)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} can't be judged: it is not UTF-8. Save the table as CSV, in UTF-8") from None
    separator = max(",;\t|", key=text.lstrip().partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except csv.Error as error:
        raise InputError(f"{path} can't be judged: line {reader.line_num}: {error}. {_REMEDY}") from None
    return (lines[0][1], lines[1:]) if lines else ([], [])


def _last_rows(pattern: Path, metric: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return one table, like `_lines`, from all files that fit `pattern`, such as runs/{variant}-{seed}/metrics.csv.

    The table has a row for each file, with the variant, the seed and the last value of `metric`. If a file has no value
    of `metric`, the cell is empty, and the run counts as failed.

    Raises:
        InputError: no file fits, a file can't be read, or a file has no column `metric`.
    """
    if not all(part in str(pattern) for part in ("{variant}", "{seed}")):
        raise InputError(f"--glob: the path must have {{variant}} and {{seed}} in it. Received: {pattern}")
    seen: set[str] = set()

    def part(match: re.Match[str]) -> str:
        """Return the regular expression for a name in braces or for a star.

        A name in braces stands for the same text wherever the name occurs in the path.
        """
        name = match[1]
        if not name or name in seen:
            return f"(?P={name})" if name else "[^/]*"
        seen.add(name)
        return f"(?P<{name}>[^/]+)"

    named = re.compile(re.sub(r"\\{(\w+)\\}|\\\*", part, re.escape(str(pattern))))
    root = Path(pattern.anchor)
    lines: list[tuple[int, list[str]]] = []
    for path in sorted(root.glob(re.sub(r"{\w+}", "*", str(pattern.relative_to(root))))):
        found = named.fullmatch(str(path))
        header, rows = _lines(path)
        if metric not in header:
            raise InputError(f"{path} can't be judged: it has no column {metric}; it has {', '.join(header)}")
        results = [cells[header.index(metric)] for _, cells in rows if len(cells) == len(header)]
        last = next((result for result in reversed(results) if result), "")
        if found:
            lines.append((len(lines) + 2, [found["variant"], found["seed"], last]))
    if not lines:
        raise InputError(f"no file fits {pattern}")
    return ["variant", "seed", metric], lines


def _is_history(rows: Sequence[Mapping[str, str]], called: Mapping[str, str], step: str) -> bool:
    """Return True if more than half of the runs have several rows, with different values in the column `step`."""
    steps: dict[tuple[str | None, str | None], set[str | None]] = {}
    for row in rows:
        steps.setdefault((row.get(called["variant"]), row.get(called["seed"])), set()).add(row.get(step))
    return 2 * sum(len(of_run) > 1 for of_run in steps.values()) > len(steps)


def _faults_of_row(row: Mapping[str, str], called: Mapping[str, str]) -> Iterator[str]:
    for name in ("variant", "seed"):
        if not row[called[name]]:
            yield f"{called[name]}: empty"
        if row[called[name]].casefold() in SUMMARIES:
            yield f"{called[name]}: {row[called[name]]!r} summarizes runs. Remove the row"
    for name in ("result", "seconds"):
        cell = row.get(called[name], "")
        if cell.lower() not in NO_NUMBER and _number(cell) is None:
            yield f"{called[name]}: {cell!r} is not a number. Use a point for decimals"


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _run(row: Mapping[str, str], called: Mapping[str, str], states: Sequence[str]) -> Row:
    cell = row[called["result"]].lower()
    result, seconds = _number(cell), _number(row.get(called["seconds"], ""))
    # pandas writes 1.0 for True if the column has an empty cell.
    words = {name: row[name].removeprefix("TrialState.").removesuffix(".0").casefold() for name in states}
    failed = next((name for name, word in words.items() if word not in ENDED_WELL), None)
    if failed and failed.casefold() in FAILURE_COLUMNS:
        outcome = "failed"
    elif failed:
        outcome = "diverged" if words[failed] in YES else words[failed]
    elif result is not None and math.isfinite(result):
        outcome = "completed"
    else:
        outcome = "diverged" if cell == "diverged" or math.isinf(result or 0.0) else "without a number"
    is_completed = outcome == "completed"
    digits, _, exponent = cell.partition("e")
    decimals = digits.partition(".")[2].rstrip("0")
    return Row(
        variant=row[called["variant"]],
        seed=re.sub(r"\.0+$", "", row[called["seed"]]),  # pandas writes 1.0 for 1 if a seed is missing
        outcome=outcome,
        result=result if is_completed else None,
        seconds=seconds if is_completed and seconds and 0 < seconds < math.inf else None,
        unit=10.0 ** (int(exponent or 0) - len(decimals)) if is_completed else None,
        precision=None,
        final_weights_sha256=None,
        num_predicted_classes=None,
    )


def _faults_together(runs: Mapping[int, Row], called: Mapping[str, str], baseline: str) -> Iterator[str]:
    """Yield the faults that are found only once all rows are read: no baseline, no other variant, or repeated seeds."""
    variants = list(dict.fromkeys(run.variant for run in runs.values()))
    if baseline not in variants:
        yield f"there is no variant {baseline}, the baseline; the table has {', '.join(variants) or 'no row'}"
    elif len(variants) == 1:
        yield f"{baseline} is the only variant, so there is nothing to compare"
    first: dict[tuple[str, str], int] = {}
    for line, run in runs.items():
        if run.outcome == "completed" and first.setdefault((run.variant, run.seed), line) != line:
            earlier = first[run.variant, run.seed]
            yield f"line {line}, column {called['seed']}: {run.variant} already has seed {run.seed} in line {earlier}"
