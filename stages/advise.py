"""Compose a study of your model and data: is mixed precision worth it on this machine, and twice the batch?"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from pipeline.advice.model_values import model_values
from pipeline.advice.proposal import find_description, propose, study_name, write_study
from pipeline.machine.environment import installed_runtime
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import load_study
from stages import run
from stages.argument_types import mapping, positive

ADVICE = Path("advice")


def main(arguments: argparse.Namespace) -> None:
    known = load_study().datasets
    runtime = installed_runtime() or "cpu"
    model = model_values(arguments.model, arguments.source, arguments.arguments or {}, runtime)
    dataset = arguments.dataset if arguments.dataset in known else study_name(arguments.dataset)
    tfds = {"tfds": arguments.dataset}
    origin = known.get(dataset) or validate(DatasetSource, tfds, f"--dataset {arguments.dataset}")
    description = prepared(dataset, origin, in_study=dataset in known)
    values = propose(
        model, dataset, origin, description, arguments.batch, runtime=runtime, image_size=arguments.image_size
    )
    (name,) = values["benchmarks"]
    path = ADVICE / name / "params.yaml"
    write_study(values, path)
    _call("stages.examine", "--study", str(path), "--benchmark", name)
    print(f"{path} is a study of it. Look at its epochs and optimizer, then: cp {path} params.yaml && make repro")


def prepared(dataset: str, origin: DatasetSource, *, in_study: bool) -> dict[str, Any]:
    """Return `dataset.json` of data/`dataset`, which is prepared first where there is none."""
    if not (found := find_description(dataset)):
        print(f"preparing {dataset}", flush=True)
        _call("stages.download", "--dataset", dataset, *(() if in_study else ("--tfds", origin.tfds)))
        found = find_description(dataset)
    return found or {}


def _call(*command: str) -> None:
    """Run a stage in a process of its own, which says itself what is wrong."""
    if status := subprocess.run([sys.executable, "-m", *command], check=False).returncode:
        sys.exit(status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.advise", description=__doc__)
    parser.add_argument(
        "--model", required=True, help="dense, efficientnet, keras.applications:ResNet50V2, or my_package.models:build"
    )
    parser.add_argument(
        "--dataset", required=True, help="a data set of params.yaml, or any of TFDS with image and label"
    )
    parser.add_argument("--batch", type=positive, default=128, help="the batch size B you train with (128)")
    parser.add_argument("--source", help="the file or folder of a model of your own; by default beside this project")
    parser.add_argument("--arguments", type=mapping, help="of the model, as in '{\"alpha\": 0.5}'")
    parser.add_argument("--image-size", type=positive, help="by default that of the data set")
    run(main, parser)
