"""Print what the finished study found, in a few lines, and write it for programs: results/status.json."""

import argparse
from pathlib import Path

from pipeline.files.characters import escape_deceptive
from pipeline.report.results import load_results
from pipeline.report.status import status, write_status
from stages import run


def main(_: argparse.Namespace) -> None:
    summarise()


def summarise() -> None:
    found = status(load_results())
    write_status(found)
    for benchmark, advice in found["advice"].items():
        print(f"{benchmark}: {escape_deceptive(advice)}")
    for what, counts in (("published claims", found["verdicts"]), ("experiments of ours", found["findings"])):
        if counts:
            print(f"{sum(counts.values())} {what}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    print("claims: " + ", ".join(f"{sum(counts.values())} {words}" for words, counts in found["evidence"].items()))
    print("runs: " + ", ".join(f"{count} {outcome}" for outcome, count in found["runs"].items()))
    print(f"report: {Path(found['report']).resolve()}")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.summary", description=__doc__))
