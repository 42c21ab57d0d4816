"""Look for what makes a benchmark's model unfit for 16 bits, with a few real images, in seconds."""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.machine.engine_choice import choose_engine
from pipeline.study.schema import PARAMS, load_study
from stages import run

NUM_IMAGES = 32


def main(arguments: argparse.Namespace) -> None:
    study = load_study(arguments.study)
    name = arguments.benchmark
    if name not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {name}")
    benchmark = study.benchmarks[name]
    variants = {variant.policy: variant for variant in study.variants_of(name).values()}
    choose_engine(study.engine, list(variants))
    from pipeline.data import datasets
    from pipeline.training import building  # the engine takes seconds to import; before Keras

    # isort: split
    import keras
    import numpy as np

    from pipeline.health.rules import examine
    from pipeline.training.precision import check_model, observed_dtypes

    data = datasets.load_dataset(benchmark.dataset, benchmark.split)
    rows = np.arange(NUM_IMAGES) * len(data.train.labels) // NUM_IMAGES  # from all over, should they be sorted
    images = data.train.images[rows]
    for policy, variant in variants.items():
        keras.utils.clear_session()  # layers have the names that a summary shows
        model, _ = building.build_model(benchmark, policy, data.num_classes, data.num_channels, seed=0)
        building.compile_model(model, benchmark, variant)
        findings = examine(model, policy, images)
        print(f"{policy}: {len(findings) or 'nothing'} found", flush=True)
        for each in findings:
            print(f"  {', '.join(each.layers) or 'the model'}: {each.what}. {each.remedy}.", flush=True)
        # What training would refuse is refused here.
        probabilities = keras.ops.convert_to_numpy(model(images))
        check_model(name, benchmark, policy, observed_dtypes(model, str(probabilities.dtype)), probabilities)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.examine", description=__doc__)
    parser.add_argument("--study", type=Path, default=PARAMS, help="by default params.yaml")
    parser.add_argument("--benchmark", required=True, help="a benchmark of the study")
    run(main, parser)
