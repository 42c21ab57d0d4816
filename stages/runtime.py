"""Print the packages that train the study, such as cuda. Make asks; only the parser must be installed."""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.yaml_files import load
from pipeline.study.runtimes import RUNTIMES
from stages import run

UNKNOWN = "unknown"  # what is wrong with the study, stages.check says


def main(arguments: argparse.Namespace) -> None:
    files = [Path("params.yaml")]
    if arguments.profile:  # a difference from the base
        files = [Path("conf", "profile", f"{arguments.profile}.yaml"), Path("conf", "base.yaml")]
    print(next(filter(None, map(_runtime, files)), UNKNOWN))


def _runtime(path: Path) -> str | None:
    try:
        values = load(path)
    except InputError:
        return None
    runtime = values.get("runtime") if isinstance(values, dict) else None
    return runtime if runtime in RUNTIMES else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.runtime", description=__doc__)
    parser.add_argument("--profile", help="of this profile, not of params.yaml")
    run(main, parser)
