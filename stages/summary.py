"""Print what the last study found, in a few lines."""

import argparse
import json
from pathlib import Path

from pipeline.errors import InputError
from stages import run

STATUS = Path("results/status.json")


def main(_: argparse.Namespace) -> None:
    try:
        status = json.loads(STATUS.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{STATUS} is missing. Make it with: make repro") from None
    except ValueError:
        raise InputError(f"{STATUS} is damaged. Make it again: dvc repro --force --single-item report") from None
    for benchmark, advice in status["advice"].items():
        print(f"{benchmark}: {advice}")
    print("claims: " + ", ".join(f"{count} {verdict}" for verdict, count in status["verdicts"].items()))
    print("runs: " + ", ".join(f"{count} {outcome}" for outcome, count in status["runs"].items()))
    print(f"report: {Path(status['report']).resolve()}")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.summary", description=__doc__))
