"""Produce the facts, samples, gradients and trials of a study, which results/numerics.json holds."""

from typing import Any

from pipeline import engine  # import this before all that imports Keras, so that the engine starts silently

# isort: split
from pipeline.data import datasets
from pipeline.data.datasets import read_description
from pipeline.machine.environment import environment_here
from pipeline.numerics import arithmetic, experiments, exponents
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import Study
from pipeline.words.numbers import rare

LOSS_SCALE = 2.0**15
RARE = 0.01


def find(study: Study) -> dict[str, Any]:
    """Return the facts, samples and gradients of a study, and the environment of this process.

    If a benchmark does not fit into memory, the results that can't be obtained are missing.
    """
    found: dict[str, Any] = {"facts": {}, "samples": {}, "gradients": {}}
    facts, samples = found["facts"], found["samples"]
    found["environment"] = environment_here(engine.accelerators(), engine.version(), engine.kernels())
    samples["numpy_float16_speedup"] = arithmetic.numpy_speedups()
    has_split = experiments.has_tensorflow()
    if has_split:
        facts["notebook_split.num_trained_on"] = experiments.trained_on()
    else:
        print("notebook_split is skipped: the notebook splits by a shuffle of TensorFlow, which is not installed")
    # Memorized examples raise the accuracy most on the benchmark with the most classes.
    looked_at = study.numerics_on or study.benchmarks
    hardest = max(looked_at, key=lambda name: len(read_description(study.benchmarks[name].dataset).classes))
    facts |= arithmetic.range_facts() | arithmetic.accumulation_facts()
    facts |= arithmetic.policy_facts() | arithmetic.loss_scale_facts()

    def look_at(name: str, benchmark: Benchmark) -> None:
        data = datasets.load_dataset(benchmark.dataset, benchmark.split)
        facts[f"weights_ratio.{name}.float16"] = arithmetic.weights_ratio(benchmark, data, "float16")
        gradients = found["gradients"][name] = exponents.gradient_exponents(benchmark, data, LOSS_SCALE)
        flushed, scaled = gradients["flushed_share"], gradients["flushed_share_scaled"]
        facts[f"gradients.{name}.some_flushed"] = flushed > 0
        facts[f"gradients.{name}.fewer_flushed_when_scaled"] = scaled < flushed
        facts[f"gradients.{name}.forward_rarely_flushed"] = gradients.pop("forward_flushed_share") < RARE
        print(f"{name}: {rare(flushed)} of the gradients are too small for float16 unscaled", flush=True)
        if study.numerics == "all" or (study.numerics == "trials" and benchmark.model.name == "dense"):
            samples[f"skipped_steps.{name}"] = experiments.skipped_steps(benchmark, data, experiments.SEEDS)
        if study.numerics == "all" and has_split and name == hardest:
            share = facts["notebook_split.num_trained_on"] / experiments.NUM_HELD_OUT
            samples["notebook_split_gain"] = experiments.split_gains(benchmark, data, share, experiments.SEEDS)

    for name in looked_at:
        try:
            look_at(name, study.benchmarks[name])
        except Exception as error:
            if not engine.is_out_of_memory(error):
                raise
            print(f"{name} does not fit into memory here: what 16 bits do to it stays unknown")
    return found


def find_trials(study: Study) -> list[dict[str, Any]]:
    """Run the trials on the data of the first benchmark with a dense network, and return the results.

    Return an empty list if there is no such benchmark, or if the study asks only for facts.
    """
    dense = [name for name in study.numerics_on or study.benchmarks if study.benchmarks[name].model.name == "dense"]
    if study.numerics == "facts" or not dense:
        return []
    benchmark = study.benchmarks[dense[0]]
    data = datasets.load_dataset(benchmark.dataset, benchmark.split)
    found = []
    for trial in experiments.run_trials(benchmark, data, experiments.SEEDS):
        print(f"{trial['name']}: trains with {trial['num_trained']} of {trial['num_trials']} seeds", flush=True)
        found.append(trial)
    return found
