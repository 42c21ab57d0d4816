"""Name what each variant varies, in a file each, for the runs that depend on it."""

import argparse
import json
from pathlib import Path

from pipeline.study.schema import load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    folder = Path("inputs", "variants")
    folder.mkdir(parents=True, exist_ok=True)
    for name, variant in load_study().variants.items():
        text = json.dumps(variant.model_dump(mode="json"), indent=2)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.variants", description=__doc__))
