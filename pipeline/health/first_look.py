"""Train a model for a few steps under each policy: what makes it unfit for 16 bits, and how long does it take?"""

from itertools import pairwise
from time import perf_counter

from pipeline import engine  # first: it quietens the engine before Keras imports it

# isort: split
import keras
import numpy as np

from pipeline.health.rules import examine
from pipeline.study.schema import Study
from pipeline.training import building

NUM_EXAMINED, NUM_STEPS = 32, 4


def look(
    study: Study, name: str, image_shape: tuple[int, int, int], num_classes: int
) -> dict[str, tuple[float, float]]:
    """Return, by policy, the seconds until the first step of the benchmark `name` is done, and of a further step.

    Print what is wrong with the model. A policy under which a batch does not fit into memory takes no time.

    Raises:
        InputError: the model can't be imported or built.
    """
    benchmark = study.benchmarks[name]
    rng = np.random.default_rng(0)
    images = rng.random((benchmark.batch_size, *image_shape), np.float32)
    labels = rng.integers(0, num_classes, benchmark.batch_size)
    found: dict[str, tuple[float, float]] = {}
    for variant in {variant.policy: variant for variant in study.variants.values()}.values():
        times = [perf_counter()]
        keras.utils.clear_session()  # layers have the names that a summary shows
        try:
            model, _ = building.build_model(benchmark, variant.policy, num_classes, image_shape[-1], seed=0)
            building.compile_model(model, benchmark, variant)
            for _ in range(NUM_STEPS):
                model.train_on_batch(images, labels)  # which returns the loss, so that it waits for the device
                times.append(perf_counter())
            for sentence in examine(model, variant.policy, images[:NUM_EXAMINED]):
                print(f"{variant.policy}: {sentence}", flush=True)
        except Exception as error:
            if not engine.is_out_of_memory(error):
                raise
        seconds = [after - before for before, after in pairwise(times)]
        found[variant.policy] = (seconds[0], min(seconds[1:])) if len(seconds) == NUM_STEPS else (0.0, 0.0)
    return found
