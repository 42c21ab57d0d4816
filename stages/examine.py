"""Look for what makes a benchmark's model unfit for 16 bits, with a few real images, in seconds."""

import argparse
from pathlib import Path
from typing import Any

from pipeline.claims.acceleration import channel_multiple
from pipeline.errors import InputError
from pipeline.health.findings import Examination
from pipeline.machine.engine_choice import choose_engine
from pipeline.machine.hardware import this_machine
from pipeline.study.schema import PARAMS, load_study
from stages import run

NUM_IMAGES = 32


def main(arguments: argparse.Namespace) -> None:
    study = load_study(arguments.study)
    if arguments.benchmark not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {arguments.benchmark}")
    benchmark = study.benchmarks[arguments.benchmark]
    choose_engine(study.engine, [variant.policy for variant in study.variants.values()])
    from pipeline.data import datasets
    from pipeline.health.check import HealthCheck
    from pipeline.training import building  # the engine takes seconds to import; before Keras

    # isort: split
    import keras
    import numpy as np

    from pipeline.training.precision import check_model, observed_dtypes

    data = datasets.load_dataset(benchmark.dataset, benchmark.split)
    rows = np.arange(NUM_IMAGES) * len(data.train.labels) // NUM_IMAGES  # from all over, should they be sorted
    images, labels = data.train.images[rows], data.train.labels[rows]
    variants = {variant.policy: variant for variant in study.variants_of(arguments.benchmark).values()}
    built: dict[str, Any] = {}

    def build(policy: str) -> Any:
        built[policy], _ = building.build_model(benchmark, policy, data.num_classes, data.num_channels, seed=0)
        if policy in variants:  # float32 is built to compare with, whether the study has it or not
            building.compile_model(built[policy], benchmark, variants[policy])
        return built[policy]

    multiple = channel_multiple(this_machine())
    health = HealthCheck(build, images, labels, benchmark.batch_size, multiple)
    found = []
    for policy in variants:
        seen = health.examine(policy)
        print(describe_examination(seen), flush=True)
        found.append(seen)
        # What training would refuse is refused here.
        probabilities = keras.ops.convert_to_numpy(built[policy](images))
        dtypes = observed_dtypes(built[policy], str(probabilities.dtype))
        check_model(arguments.benchmark, benchmark, policy, dtypes, probabilities)
    if arguments.out:
        lines = "".join(seen.model_dump_json() + "\n" for seen in found)
        arguments.out.write_text(lines, encoding="utf-8")


def describe_examination(seen: Examination) -> str:
    """Describe the findings, a line each with its remedy, and how near the model is to float16's limits."""
    text = f"{seen.policy}: {len(seen.findings) or 'nothing'} found; activations reach {seen.largest_activation:.3g}"
    if seen.flushed_share is not None and seen.flushed_share_scaled is not None:
        text += (
            f"; float16 loses {seen.flushed_share:.2%} of the gradients, {seen.flushed_share_scaled:.2%} once scaled"
        )
    return text + "".join(
        f"\n  {finding.severity}, {', '.join(finding.layers) or 'the model'}: {finding.what}. {finding.remedy}"
        for finding in seen.findings
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.examine", description=__doc__)
    parser.add_argument("--study", type=Path, default=PARAMS, help="by default params.yaml")
    parser.add_argument("--benchmark", required=True, help="a benchmark of the study")
    parser.add_argument("--out", type=Path, help="a file for the findings, in JSON, a policy a line")
    run(main, parser)
