"""Ask the compiler of a device that is not here about your model: what a step takes, and what stays in float32."""

import argparse
import json
from pathlib import Path
from typing import Any

from pipeline.advice.proposal import ADVICE, benchmark_name, model_values, study_name
from pipeline.compiled.answers import sentences
from pipeline.compiled.compiler import Compiler
from pipeline.compiled.programs import DATASETS, precisions_of, step_of
from pipeline.compiled.targets import TARGETS, find_target
from pipeline.data.datasets import Description
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, read_json
from pipeline.files.writing import write_whole
from pipeline.study.benchmark import Benchmark
from pipeline.study.configuration import validate
from stages import run
from stages.argument_types import add_model_options, check_model_given


def main(arguments: argparse.Namespace) -> None:
    check_model_given(arguments)
    target = find_target(arguments.target)
    data = image_data(arguments.dataset)
    model = model_values(arguments.model, arguments.source, arguments.arguments, "tpu")
    size = arguments.image_size or data[0][0]
    name = benchmark_name(arguments.dataset, arguments.model)
    values = recipe(study_name(arguments.dataset), model, size, arguments.batch)
    benchmark = validate(Benchmark, values, f"MODEL={arguments.model}")
    programs = []
    with Compiler(target) as compiler:
        for precision in precisions_of(target, benchmark):
            print(f"compiling {precision} for {target.title}", flush=True)
            programs.append(compiler.compile(step_of(name, benchmark, precision, benchmark.batch_size, data)))
    found = sentences(target, programs)
    print("\n" + "\n".join(found))
    print("This is what the compiler of JAX says of a training step, and no measurement; TensorFlow keeps more alive.")
    path = ADVICE / f"{name}.{target.name}.json"
    path.parent.mkdir(exist_ok=True)
    noted = {
        "target": target.name,
        "sentences": found,
        "programs": [program.model_dump() for program in programs],
    }
    write_whole(path, json.dumps(noted, indent=2, ensure_ascii=False) + "\n")
    print(f"As data: {path}")


def image_data(dataset: str) -> tuple[tuple[int, int, int], int]:
    """Return the shape of the images of a data set and the number of its classes.

    Raises:
        InputError: it is none of the sources', and was not prepared here.
    """
    name = study_name(dataset)
    path = Path("data", name, "dataset.json")
    if not path.exists():
        if dataset in DATASETS:
            return DATASETS[dataset]
        raise InputError(
            f"DATASET={dataset}: {path} is missing. Prepare it with: "
            f"make .venv/ready && .venv/bin/python -m stages.download --dataset {name} --tfds {dataset}"
        )
    again = Remedy(*[f"Remove {path.parent} and prepare it again."] * 2)
    found = read_json(Description, path, again)
    height, width, channels = found.image_shape
    return (height, width, channels), len(found.classes)


def recipe(dataset: str, model: dict[str, Any], image_size: int, batch_size: int) -> dict[str, Any]:
    """Return a benchmark whose training step is that of `model` under Adam."""
    return {
        "dataset": dataset,
        "split": {"num_train_examples": 4 * batch_size, "num_validation_examples": 1},
        "image_size": image_size,
        "model": model,
        "optimizer": {"name": "adam", "learning_rate": 0.001},
        "batch_size": batch_size,
        "evaluation_batch_size": 1,
        "num_epochs": 1,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.advise_target", description=__doc__)
    parser.add_argument("--target", required=True, help=f"one of {', '.join(TARGETS)}")
    add_model_options(parser)
    run(main, parser)
