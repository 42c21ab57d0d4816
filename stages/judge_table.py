"""Judge anyone's runs: is a variant the same as the baseline, within a margin? A table in, a verdict out."""

import argparse
import contextlib
import errno
import json
import sys
from pathlib import Path

from pipeline.comparison.run_table import COLUMNS, Question, judge, read_runs
from pipeline.errors import InputError
from pipeline.files.terminal import print_table
from pipeline.files.writing import write_whole
from pipeline.report.table_page import page, tell
from stages import run
from stages.argument_types import check_given

EXAMPLE = """\
a table has a row a run, for example:

  variant,seed,accuracy,seconds
  fp32,0,91.32,412
  bf16,0,91.27,260

A run without a number has failed, and so has one with `diverged` in its cell, or true in a column `diverged`.

exit status: 0 every candidate is equivalent, 20 one is different, 30 one is inconclusive, 2 the table is faulty
"""


def margin(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 1e-6 <= (value := float(text)) < 1e9:
            return value
    raise argparse.ArgumentTypeError(f"must be a number above 0, in the metric's unit. Received: {text!r}")


def renamed(text: str) -> tuple[str, str]:
    name, _, column = text.partition("=")
    if name not in COLUMNS or not column:
        raise ValueError(text)
    return name, column


def main(arguments: argparse.Namespace) -> None:
    example = "judge TABLE=docs/example-runs.csv BASELINE=float32 MARGIN=0.5"
    check_given(example, TABLE=arguments.table, BASELINE=arguments.baseline, MARGIN=arguments.margin)
    table: Path = arguments.table
    asked = Question(
        metric=arguments.metric,
        baseline=arguments.baseline,
        margin=arguments.margin,
        is_lower_better=arguments.lower_is_better,
        is_one_sided=arguments.one_sided,
    )
    verdict = judge(read_runs(table, asked.metric, asked.baseline, dict(arguments.columns)), asked)
    told = tell(verdict)
    print(f"{told.question}\n{told.how}\n")
    print_table(told.columns, told.rows, num_names=2)
    print("", *told.failures, sep="\n")
    for candidate in told.candidates:
        print(f"{candidate.variant} is {candidate.verdict}: {candidate.means}.", *candidate.sentences, sep="\n  ")
    name = f"{table.stem}-verdict"
    # The library's numbers are in percentage points; those of a table have its own unit.
    as_json = json.dumps({"schema_version": 1, "status": verdict.status} | verdict.model_dump(), indent=2)
    try:
        write_whole(table.with_name(f"{name}.html"), page(told, table.name))
        write_whole(table.with_name(f"{name}.json"), as_json.replace('_pp":', '":') + "\n")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise InputError(f"{table.parent} can't be written to ({error.strerror}). Copy the table elsewhere") from None
    print(f"\n{table.with_name(name)}.html is written, and {name}.json")
    sys.exit(verdict.status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m stages.judge_table",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", nargs="?", type=Path, help="a CSV file")
    parser.add_argument("--baseline", help="the variant that others are set beside")
    parser.add_argument("--margin", type=margin, help="the largest harmless difference, in the metric's unit")
    parser.add_argument("--metric", default="accuracy", help="the column that is judged (accuracy)")
    parser.add_argument("--lower-is-better", action="store_true", help="as of a loss")
    parser.add_argument("--one-sided", action="store_true", help="ignore gains: is it no worse?")
    parser.add_argument(
        "--columns", type=renamed, nargs="+", default=[], metavar="NAME=COLUMN", help="as in seed=run_id variant=dtype"
    )
    run(main, parser)
