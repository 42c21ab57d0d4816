"""Print what the last study found, in a few lines."""

import argparse
from pathlib import Path

from pipeline.results import read_json
from stages import run


def main(_: argparse.Namespace) -> None:
    status = read_json("status.json")
    for benchmark, advice in status["advice"].items():
        print(f"{benchmark}: {advice}")
    print("claims: " + ", ".join(f"{count} {verdict}" for verdict, count in status["verdicts"].items()))
    print("runs: " + ", ".join(f"{count} {outcome}" for outcome, count in status["runs"].items()))
    print(f"report: {Path(status['report']).resolve()}")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.summary", description=__doc__))
