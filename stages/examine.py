"""Look for what makes a benchmark's model unfit for 16 bits, with a few real images; needs seconds."""

import argparse
from functools import partial
from pathlib import Path

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

    from pipeline import building, datasets, health  # the engine takes seconds to import

    data = datasets.load(benchmark.dataset, benchmark.split)
    rows = np.arange(NUM_IMAGES) * len(data.train.labels) // NUM_IMAGES  # from all over, should they be sorted

    def build(policy: str):  # type: ignore[no-untyped-def]
        return building.build_model(benchmark, policy, data.num_classes, data.num_channels, seed=0)[0]

    policies = {variant.policy: None for variant in study.variants_of(arguments.benchmark).values()}
    look = partial(health.examine, build, images=data.train.images[rows], labels=data.train.labels[rows])
    found = [
        look(policy=policy, batch_size=benchmark.batch_size, multiple=channel_multiple(this_machine()))
        for policy in policies
    ]
    for seen in found:
        print(f"{seen.policy}: " + (describe(seen) if seen.findings else "nothing found"))
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
