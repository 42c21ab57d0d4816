"""Name what is the same for every run: what the study says of all, and digests of the code and packages that train."""

import argparse
import json
from pathlib import Path

from pipeline.files import yaml_files
from pipeline.study.schema import load_study
from pipeline.study.user_code import digest
from stages import run

SETTINGS = {"campaign", "compilation_cache", "devices", "engine", "runtime", "tensorboard"}


def main(_: argparse.Namespace) -> None:
    study = load_study()
    files = yaml_files.load(Path("dvc.yaml"))["stages"]["code"]["deps"]
    files = [file.replace("${runtime}", study.runtime) for file in files]
    digests = {file: digest(Path(file)) for file in files}
    path = Path("inputs", "code.json")
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({"study": study.model_dump(mode="json", include=SETTINGS), "sha256": digests}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")
    folder = Path("inputs", "seeds")  # a seed that was left out is run once it no longer is
    folder.mkdir(exist_ok=True)
    for name in study.benchmarks:
        seeds = study.seeds_of(name) if name in study.num_seeds else "all"
        (folder / f"{name}.json").write_text(json.dumps(seeds) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.code", description=__doc__))
