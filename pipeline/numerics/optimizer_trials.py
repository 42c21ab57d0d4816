"""Try whether an optimizer trains when weights, gradients and its own state have 16 bits, at several seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline import engine
from pipeline.data.datasets import Dataset
from pipeline.numerics.facts import SHORTFALL, TRIAL_SIZE, TRIALS, OptimizerTrial
from pipeline.numerics.repeating import fit_in_order, from_each
from pipeline.study.benchmark import Benchmark
from pipeline.study.variant import Dynamic, Fixed
from pipeline.training import building, evaluation
from pipeline.training.precision import scaled

SEEDS = range(6)
UNITS, NUM_EXAMPLES, BATCH_SIZE, NUM_EPOCHS = TRIAL_SIZE


def run_trials(benchmark: Benchmark, data: Dataset, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Run every trial at every seed, against float32 with the same optimizer, options, seed and batches.

    The model is the dense one with 64 units. Accuracies, in [0, 1], are on the validation examples; `num_trained`
    counts the seeds at which a trial comes within 5 percentage points of its float32 twin.
    """
    recipe = benchmark.with_dense_model(UNITS)
    starts = [building.build_model(recipe, "float32", data.num_classes, data.num_channels, seed)[0] for seed in seeds]
    weights = [model.get_weights() for model in starts]
    twins: dict[tuple[str, str], list[float]] = {}
    rows = []
    for trial in TRIALS:
        twin = (trial.optimizer, repr(trial.options))
        if twin not in twins:
            float32 = trial._replace(policy="float32", loss_scale=None)
            twins[twin] = _accuracies(recipe, data, float32, seeds, weights)
        accuracies = _accuracies(recipe, data, trial, seeds, weights)
        pairs = zip(accuracies, twins[twin], strict=True)
        rows.append(
            trial._asdict()
            | {"accuracies": accuracies, "float32_accuracies": twins[twin]}
            | {"num_trained": sum(ours >= theirs - SHORTFALL for ours, theirs in pairs), "num_trials": len(seeds)}
        )
    return rows


def _accuracies(
    benchmark: Benchmark,
    data: Dataset,
    trial: OptimizerTrial,
    seeds: Sequence[int],
    weights: Sequence[list[np.ndarray]],
) -> list[float]:
    """Run the trial at every seed."""
    model, _ = building.build_model(benchmark, trial.policy, data.num_classes, data.num_channels, seed=0)
    optimizer = building.make_optimizer(trial.optimizer, 0.001, trial.options)
    if trial.loss_scale == "dynamic":
        optimizer = scaled(optimizer, Dynamic(mode="dynamic"))
    elif trial.loss_scale is not None:
        optimizer = scaled(optimizer, Fixed(mode="fixed", value=trial.loss_scale))
    # Or whatever Keras does to the loss by itself: nothing under a pure policy, a dynamic scale under mixed_float16.
    itself = trial.loss_scale is None
    loss = "sparse_categorical_crossentropy"
    model.compile(
        optimizer,
        loss,
        auto_scale_loss=itself,
        jit_compile=engine.COMPILES_SHAPES,
        steps_per_execution=NUM_EXAMPLES // BATCH_SIZE,
    )
    images, labels = data.train.images[:NUM_EXAMPLES], data.train.labels[:NUM_EXAMPLES]
    accuracies = []
    for seed, _ in zip(seeds, from_each(model, weights), strict=True):
        fit_in_order(model, images, labels, BATCH_SIZE, NUM_EPOCHS, np.random.default_rng(seed))
        accuracies.append(evaluation.score(model, data.validation, 2000)[1])
    return accuracies
