"""Count the first steps that a dynamic loss scale skips, because it starts too high."""

from collections.abc import Sequence

import keras

from pipeline import engine
from pipeline.data.batches import ShuffledBatches
from pipeline.data.datasets import Dataset
from pipeline.numerics.repeating import from_each
from pipeline.study.benchmark import Benchmark
from pipeline.study.variant import Variant
from pipeline.training import building

NUM_STEPS = 10


def skipped_steps(benchmark: Benchmark, data: Dataset, seeds: Sequence[int]) -> list[int]:
    """Return how many of the first `NUM_STEPS` steps under mixed_float16 are skipped, by seed."""
    recipe = benchmark.model_copy(update={"steps_per_execution": 1})
    shape = (data.num_classes, data.num_channels)
    model, _ = building.build_model(recipe, "mixed_float16", *shape, seed=0)
    variant = Variant(policy="mixed_float16", batch_multiplier=1, jit_compile=engine.COMPILES_SHAPES)
    building.compile_model(model, recipe, variant)
    starts = (building.build_model(recipe, "mixed_float16", *shape, seed)[0].get_weights() for seed in seeds)
    found = []
    for seed, _ in zip(seeds, from_each(model, starts), strict=True):
        batches = ShuffledBatches(data.train, recipe.batch_size, seed)
        for step in range(NUM_STEPS):
            model.train_on_batch(*batches[step % max(1, len(batches) - 1)])
        found.append(NUM_STEPS - int(keras.ops.convert_to_numpy(model.optimizer.iterations)))
    return found
