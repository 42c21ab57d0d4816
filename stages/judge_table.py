"""Judge a table of anyone's runs: is each variant the same as the baseline, within a margin?"""

import argparse
import contextlib
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

from pipeline.comparison.pairing import Question
from pipeline.errors import InputError
from pipeline.files.terminal import print_table
from pipeline.files.writing import write_whole
from pipeline.run_table.table_file import COLUMNS, STANDARD_INPUT, read_runs
from pipeline.run_table.table_verdict import Judged, cells, failures_said, judge_table, page, question, said_of
from pipeline.words.sentences import sentence, sentences
from stages import run

# Names of metrics that are probably better when lower.
LOWER_IS_BETTER = (
    r"loss|error|perplexity|entropy|distance|latency|regret"
    r"|(?<![a-z])(err|ppl|nll|xent|mse|rmse|mae|mape|wer|cer|eer|ece|fid|bpb|brier)(?![a-z])"
)
EXAMPLE = """\
a table has a row a run, for example:

  variant,seed,accuracy,seconds
  fp32,0,91.32,412
  bf16,0,91.27,260

A run without a number has failed, and so has one whose column `state`, `status` or `diverged` says so: crashed, FAILED,
PRUNED, true. The number in such a row is ignored.

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
    table: Path = arguments.glob or arguments.table
    metric, baseline = arguments.metric, arguments.baseline
    has_direction = arguments.lower_is_better or arguments.higher_is_better
    if arguments.one_sided and not has_direction and re.search(LOWER_IS_BETTER, metric, re.IGNORECASE):
        raise InputError(
            f"--one-sided: is a lower {metric} better, or a higher one? Add --lower-is-better or --higher-is-better"
        )
    asked = Question(arguments.margin, arguments.lower_is_better, arguments.one_sided)
    judged = judge_table(read_runs(table, metric, baseline, dict(arguments.columns)), metric, baseline, asked)
    values = {"schema_version": 3, "status": judged.status, "metric": metric, "baseline": baseline}
    as_json = json.dumps(values | asked._asdict() | {"variants": judged.rows}, indent=2, default=asdict)
    if arguments.json:
        print(as_json)
    else:
        say(judged)
    if table != STANDARD_INPUT:
        verdict = Path("verdict") if arguments.glob else table.with_name(f"{table.stem}-verdict")
        write_whole(Path(f"{verdict}.html"), page(judged, table.name))
        write_whole(Path(f"{verdict}.json"), as_json + "\n")
        print(
            f"\n{verdict}.html is written, and {verdict.name}.json", file=sys.stderr if arguments.json else sys.stdout
        )
    sys.exit(judged.status)


def say(judged: Judged) -> None:
    """Print the question, the table and the verdict on each variant."""
    columns, rows = cells(judged)
    print(sentence(question(judged)), end="\n\n")
    print_table(columns, rows, num_names=2)
    print("", *map(sentence, failures_said(judged)), sep="\n")
    for row in judged.candidates:
        print(sentences(said_of(judged, row)))


def command() -> None:
    """Parse the command line of the script `judge-runs`, and judge the table that the command line names."""
    parser = argparse.ArgumentParser(
        prog="judge-runs",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    runs = parser.add_mutually_exclusive_group(required=True)
    runs.add_argument("table", nargs="?", type=Path, help="a CSV file; - is standard input, and writes no files")
    runs.add_argument(
        "--glob", type=Path, help="one CSV file a run, as in 'runs/{variant}-{seed}/metrics.csv', in place of a table"
    )
    parser.add_argument("--baseline", required=True, help="the variant that the others are compared with")
    parser.add_argument(
        "--margin", required=True, type=margin, help="the largest harmless difference, in the metric's unit"
    )
    parser.add_argument("--metric", default="accuracy", help="the column that is judged (accuracy)")
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument("--lower-is-better", action="store_true", help="for a metric such as a loss")
    direction.add_argument("--higher-is-better", action="store_true", help="for every other metric (the default)")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument("--one-sided", action="store_true", help="ignore gains: is it no worse?")
    parser.add_argument(
        "--columns",
        type=renamed,
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=COLUMN",
        help="as in seed=run_id variant=dtype",
    )
    run(main, parser)


if __name__ == "__main__":
    command()
