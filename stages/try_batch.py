"""Train two steps at a batch size in this process alone; exit status 3 says that memory was too small."""

import argparse
import sys

from pipeline.machine.engine_choice import choose_engine
from pipeline.study.schema import load_study
from stages import run

DOES_NOT_FIT = 3


def main(arguments: argparse.Namespace) -> None:
    study = load_study()
    benchmark = study.benchmarks[arguments.benchmark]
    variant = study.variants[arguments.variant]
    choose_engine(study.engine, [variant.policy])
    import numpy as np

    from pipeline import engine
    from pipeline.data import datasets
    from pipeline.training import building  # the engine takes seconds to import

    data = datasets.load_dataset(benchmark.dataset, benchmark.split)
    engine.set_tf32(variant.tf32)
    model, _ = building.build_model(benchmark, variant.policy, data.num_classes, data.num_channels, seed=0)
    building.compile_model(model, benchmark.model_copy(update={"steps_per_execution": 1}), variant)
    rows = np.arange(arguments.batch_size) % len(data.train.labels)
    try:
        for _ in range(2):
            model.train_on_batch(data.train.images[rows], data.train.labels[rows])
        engine.synchronise()
    except Exception as error:
        if not engine.is_out_of_memory(error):
            raise
        sys.exit(DOES_NOT_FIT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.try_batch", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
    parser.add_argument("--variant", required=True, help="a variant of params.yaml")
    parser.add_argument("--batch-size", required=True, type=int)
    run(main, parser)
