"""Look for what makes a benchmark's model unfit for 16 bits, with a few real images; needs seconds."""

import argparse
from pathlib import Path
from typing import Any

from pipeline.acceleration import channel_multiple
from pipeline.errors import InputError
from pipeline.findings import Examination
from pipeline.hardware import this_machine
from pipeline.study import PARAMS, load_study
from stages import choose_engine, run

NUM_IMAGES = 32


def main(arguments: argparse.Namespace) -> None:
    study = load_study(arguments.study)
    if arguments.benchmark not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {arguments.benchmark}")
    benchmark = study.benchmarks[arguments.benchmark]
    choose_engine(study.engine)
    import numpy as np

    from pipeline import building, datasets, engine, health  # the engine takes seconds to import
    from pipeline.precision import check_model, observed_dtypes

    data = datasets.load(benchmark.dataset, benchmark.split)
    rows = np.arange(NUM_IMAGES) * len(data.train.labels) // NUM_IMAGES  # from all over, should they be sorted

    images, labels = data.train.images[rows], data.train.labels[rows]
    built: dict[str, Any] = {}

    def build(policy: str) -> Any:
        built[policy], _ = building.build_model(benchmark, policy, data.num_classes, data.num_channels, seed=0)
        return built[policy]

    found = []
    for policy in dict.fromkeys(variant.policy for variant in study.variants_of(arguments.benchmark).values()):
        multiple = channel_multiple(this_machine())
        seen = health.examine(build, policy, images, labels, benchmark.batch_size, multiple)
        print(f"{policy}: " + (describe(seen) if seen.findings else "nothing found"), flush=True)
        found.append(seen)
        # What training would refuse is refused here.
        probabilities = np.asarray(engine.predict(built[policy], images, NUM_IMAGES))
        dtypes = observed_dtypes(built[policy], str(probabilities.dtype))
        check_model(arguments.benchmark, benchmark, policy, dtypes, probabilities)
    if arguments.out:
        lines = "".join(seen.model_dump_json() + "\n" for seen in found)
        arguments.out.write_text(lines, encoding="utf-8")


def describe(seen: Examination) -> str:
    """The findings, one a line, each with its remedy."""
    return "".join(
        f"\n  {finding.severity}, {', '.join(finding.layers) or 'the model'}: {finding.what}. {finding.remedy}"
        for finding in seen.findings
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.examine", description=__doc__)
    parser.add_argument("--study", type=Path, default=PARAMS, help="by default params.yaml")
    parser.add_argument("--benchmark", required=True, help="a benchmark of the study")
    parser.add_argument("--out", type=Path, help="a file for the findings, in JSON, a policy a line")
    run(main, parser)
