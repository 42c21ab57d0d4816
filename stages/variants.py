"""Name what a variant varies, for the runs that depend on it."""

import argparse
import json
from pathlib import Path

from pipeline.errors import InputError
from pipeline.study import load_study
from stages import run


def main(arguments: argparse.Namespace) -> None:
    variants = load_study().variants
    if arguments.variant not in variants:
        raise InputError(f"--variant: must be one of {', '.join(variants)}. Received: {arguments.variant}")
    path = Path("inputs", "variants", f"{arguments.variant}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(variants[arguments.variant].model_dump(mode="json"), indent=2)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.variants", description=__doc__)
    parser.add_argument("--variant", required=True, help="a variant of params.yaml")
    run(main, parser)
