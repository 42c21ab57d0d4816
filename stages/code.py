"""Name the code and the packages that train: a digest of every file that the `code` stage of dvc.yaml depends on."""

import argparse
import hashlib
import json
from pathlib import Path

import yaml

from pipeline.study import load_study
from stages import run


def main(_: argparse.Namespace) -> None:
    runtime = load_study().runtime
    files = yaml.safe_load(Path("dvc.yaml").read_text(encoding="utf-8"))["stages"]["code"]["deps"]
    files = [file.replace("${runtime}", runtime) for file in files]
    digests = {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files}
    path = Path("code", "train.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.code", description=__doc__))
