"""What 16-bit arithmetic does here: dtypes, range, loss scaling, sizes, gradients, 16-bit optimizers. Exact, seeded."""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from pipeline.facts import POLICIES
from pipeline.study import load_study
from stages import choose_engine, run

RESULTS = Path("results")
LOSS_SCALE = 2.0**15


def main(_: argparse.Namespace) -> None:
    study = load_study()
    choose_engine(study.engine)
    from pipeline import engine  # noqa: F401, I001  first, and late: it quietens the engine, which takes seconds to import
    from pipeline import datasets, exponents, numerics, optimizer_trials

    found: dict[str, Any] = {"schema_version": 1, "facts": {}, "models": {}, "gradients": {}, "trials": []}
    facts = found["facts"]
    facts |= numerics.range_facts() | numerics.loss_scale_facts()
    layers = []
    for name, benchmark in study.benchmarks.items():
        data = datasets.load(benchmark.dataset, benchmark.split)
        shape = (data.num_classes, data.num_channels)
        if not found["models"]:
            facts |= numerics.policy_facts(benchmark, *shape)
        model = found["models"][name] = numerics.model_facts(benchmark, *shape)
        sizes = model["sizes"]
        for policy in POLICIES:
            facts[f"weights_ratio.{name}.{policy}"] = sizes[policy]["weights_bytes"] / sizes["float32"]["weights_bytes"]
        gradients = found["gradients"][name] = exponents.gradient_exponents(benchmark, data, LOSS_SCALE)
        facts[f"gradients.{name}.some_flushed"] = gradients["flushed_share"] > 0
        facts[f"gradients.{name}.fewer_flushed_when_scaled"] = (
            gradients["flushed_share_scaled"] < gradients["flushed_share"]
        )
        layers += numerics.layer_rows(name, benchmark, *shape)
        print(f"{name}: {gradients['flushed_share']:.2%} of the gradients are too small for float16 unscaled")
        if benchmark.model.name == "dense" and not found["trials"]:
            found["trials"] = optimizer_trials.run_trials(benchmark, data, optimizer_trials.SEEDS)
    for trial in found["trials"]:
        print(f"{trial['name']}: trains at {trial['num_trained']} of {trial['num_trials']} seeds")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "numerics.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    with (RESULTS / "layers.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(layers[0]))
        writer.writeheader()
        writer.writerows(layers)


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.numerics", description=__doc__))
