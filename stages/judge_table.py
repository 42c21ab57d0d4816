"""Judge anyone's runs: is a variant the same as the baseline, within a margin? A table in, a verdict out."""

import argparse
import json
import math
import sys
from pathlib import Path

from pipeline.comparison.run_table import read_runs
from pipeline.comparison.table_verdicts import Question, as_json, judge
from pipeline.errors import InputError
from pipeline.files.writing import write_whole
from pipeline.machine.terminal import print_table
from pipeline.report.table_page import has_seconds, how, page, question, shown
from stages import run

EXAMPLE = """\
a table has a row a run, for example:

  variant,seed,accuracy,seconds
  fp32,0,91.32,412
  bf16,0,91.27,260

A run without a number has failed, and so has one with `diverged` in its cell, or true in a column `diverged`.

exit status: 0 every candidate is equivalent, 20 one is different, 30 one is inconclusive, 2 the table is faulty
"""


def margin(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1e-6 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"must be a number from 1e-6 on, in the metric's unit. Received: {text}")
    return value


def renamed(text: str) -> tuple[str, str]:
    name, _, column = text.partition("=")
    if name not in ("variant", "seed", "seconds", "diverged", "outcome") or not column:
        raise argparse.ArgumentTypeError(
            f"must be seed=COLUMN, or as much of variant, seconds, diverged or outcome. Received: {text}"
        )
    return name, column


def main(arguments: argparse.Namespace) -> None:
    asked = Question(
        arguments.metric, arguments.baseline, arguments.margin, arguments.lower_is_better, arguments.one_sided
    )
    table: Path = arguments.table
    verdict = judge(read_runs(table, asked.metric, asked.baseline, dict(arguments.columns)), asked)
    columns, timed = ["variant", "verdict", asked.metric, "difference [95 %]"], has_seconds(verdict)
    rows = shown(verdict)
    print(f"{question(verdict)} {how(verdict)}.\n")
    print_table(
        columns + ["speed [95 %]"] * timed,
        [(row.variant, row.verdict, row.mean, row.difference) + (row.speed,) * timed for row in rows],
        num_names=2,
    )
    print()
    for row in rows:
        if row.note:
            print(f"{row.variant}: {row.note}.")
        if row.verdict:
            print(f"{row.variant}: {row.decides}; these runs could establish {row.shows}.")
            print(f"{row.variant}: what would change it: {row.changes}.")
    target = (arguments.to or table.parent) / f"{table.stem}-verdict"
    try:
        write_whole(target.with_name(f"{target.name}.html"), page(verdict, table.name))
        write_whole(target.with_name(f"{target.name}.json"), json.dumps(as_json(verdict), indent=2) + "\n")
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise InputError(f"{target.parent} can't be written to ({error.strerror}). Name another folder: --to") from None
    print(f"\n{target}.html is written, and {target.name}.json")
    sys.exit(verdict.status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m stages.judge_table",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", type=Path, help="a CSV or Parquet file")
    parser.add_argument("--baseline", required=True, help="the variant that others are set beside")
    parser.add_argument(
        "--margin", type=margin, required=True, help="the largest harmless difference, in the metric's unit"
    )
    parser.add_argument("--metric", default="accuracy", help="the column that is judged (accuracy)")
    parser.add_argument("--lower-is-better", action="store_true", help="as of a loss")
    parser.add_argument("--one-sided", action="store_true", help="ignore gains: is it no worse?")
    parser.add_argument(
        "--columns", type=renamed, nargs="+", default=[], metavar="NAME=COLUMN", help="as in seed=run_id variant=dtype"
    )
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="where the page and the JSON go; beside the table")
    run(main, parser)
