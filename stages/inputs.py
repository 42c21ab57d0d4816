"""Name what the runs of a benchmark depend on: its recipe, and digests of its data and of its model's source.

A model that can't be trained is refused here, before anything is.
"""

import argparse
import json
from pathlib import Path

from pipeline.data.description import read_description
from pipeline.errors import InputError
from pipeline.machine.engine_choice import choose_engine
from pipeline.study.benchmark import Imported
from pipeline.study.schema import load_study
from pipeline.study.user_code import digest
from stages import run


def main(arguments: argparse.Namespace) -> None:
    study = load_study()
    if arguments.benchmark not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {arguments.benchmark}")
    benchmark = study.benchmarks[arguments.benchmark]
    dataset = read_description(benchmark.dataset, Path("data"))
    if isinstance(benchmark.model, Imported) or benchmark.optimizer.arguments:  # others can't be wrong
        choose_engine(study.engine, [variant.policy for variant in study.variants.values()])
        from pipeline.health import fitting  # the engine takes seconds to import

        fitting.check(study, arguments.benchmark, dataset.image_shape, len(dataset.classes))
    inputs = {"dataset": dataset.name, "data_sha256": dataset.sha256.model_dump()}
    if chosen := study.datasets[benchmark.dataset].model_dump(mode="json", exclude_defaults=True, exclude={"tfds"}):
        inputs["dataset_source"] = chosen  # which features and splits: other labels may have the same numbers
    inputs |= {"model_sha256": digest(Path(benchmark.model.source)), "recipe": benchmark.model_dump(mode="json")}
    path = Path("inputs", "benchmarks", f"{arguments.benchmark}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(inputs, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.inputs", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
    run(main, parser)
