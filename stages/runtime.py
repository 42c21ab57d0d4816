"""Print the packages that train the study, such as cuda. Make asks; only the parser and NVML must be installed."""

import argparse
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.files.yaml_files import load
from pipeline.reproduction.engine_here import choose
from pipeline.study.runtimes import RUNTIMES
from stages import run

UNKNOWN = "unknown"  # what is wrong with the study, stages.check says


def main(arguments: argparse.Namespace) -> None:
    study = _values(Path("params.yaml"))
    asked = [study]
    if arguments.profile:  # a difference from the base
        asked = [_values(Path("conf", "profile", f"{arguments.profile}.yaml")), _values(Path("conf", "base.yaml"))]
    said = next((values["runtime"] for values in asked if values.get("runtime") in RUNTIMES), UNKNOWN)
    if said == UNKNOWN or not arguments.here:
        print(said)
        return
    same = arguments.profile in (None, study.get("profile")) and study.get("runtime") in RUNTIMES
    finished = same and any(Path("runs").glob("*/*/seed-*/record.json"))
    engine, line = choose(said, study["runtime"] if finished else None)
    print(said, engine, line)


def _values(path: Path) -> dict[str, Any]:
    try:
        values = load(path)
    except InputError:
        return {}
    return values if isinstance(values, dict) else {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.runtime", description=__doc__)
    parser.add_argument("--profile", help="of this profile, not of params.yaml")
    parser.add_argument(
        "--here", action="store_true", help="print also what the hardware here takes, and a line that says why"
    )
    run(main, parser)
