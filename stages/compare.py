"""Compare the runs of the study: statistics of every variant against the baseline."""

import argparse
from pathlib import Path

from pipeline.comparison.comparing import compare_runs
from pipeline.study.schema import RunKey
from stages import run


def main(_: argparse.Namespace) -> None:
    comparison, files = compare_runs()
    Path("results").mkdir(exist_ok=True)
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8", newline="")
    num_runs = sum(variant.completed.total for variant in comparison.variants)
    left_out = [
        (RunKey(variant.benchmark, variant.variant, seed), fault)
        for variant in comparison.variants
        for seed, fault in variant.timing_faults.items()
    ]
    if left_out:
        key, fault = left_out[0]
        print(
            f"the epoch times of {len(left_out)} of {num_runs} runs are left out ("
            f"{key.directory}: {fault}). Their accuracies count, and speed is measured apart, in turns"
        )


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.compare", description=__doc__))
