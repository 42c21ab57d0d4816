"""Name what each run depends on, in a file of its own.

inputs/code.json has what is the same for all runs: what the study says of every one, digests of the code and packages
that train. Of it and of the benchmark's inputs a run's file holds the digest, beside what its variant varies.
"""

import argparse
import itertools
import json
import shutil
from pathlib import Path

from pipeline.files import yaml_files
from pipeline.study.schema import RunKey, Study, load_study
from pipeline.study.user_code import digest
from stages import run

SETTINGS = {"campaign", "compilation_cache", "devices", "engine", "runtime", "tensorboard"}
_CODE = Path("inputs", "code.json")
_RUNS = Path("inputs", "runs")


def main(_: argparse.Namespace) -> None:
    study = load_study()
    files = yaml_files.load(Path("dvc.yaml"))["stages"]["dependencies"]["deps"]
    files = [file.replace("${runtime}", study.runtime) for file in files if not file.startswith("inputs/")]
    digests = {file: digest(Path(file)) for file in files}
    _write(_CODE, {"study": study.model_dump(mode="json", include=SETTINGS), "sha256": digests})
    shutil.rmtree(_RUNS, ignore_errors=True)
    _write_runs(study)


def _write_runs(study: Study) -> None:
    """Write a file for each item of DVC's matrix. One that the study leaves out is run once it no longer is."""
    code, runs = digest(_CODE), set(study.runs())
    for benchmark in study.benchmarks:
        of_benchmark = digest(Path("inputs", "benchmarks", f"{benchmark}.json"))
        for name, seed in itertools.product(study.variants, study.seeds):
            key = RunKey(benchmark, name, seed)
            variant = study.variants[name].model_dump(mode="json", exclude={"benchmarks"})
            said = {"benchmark_sha256": of_benchmark, "code_sha256": code, "variant": variant}
            _write(_RUNS / benchmark / name / f"seed-{seed}.json", said if key in runs else "left out")


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.dependencies", description=__doc__))
