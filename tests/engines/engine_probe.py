"""Print as JSON what the engine in KERAS_BACKEND does: python engine_probe.py FUNCTION FOLDER [NUMBER].

`tests/engines/test_engines.py` starts this, because a process has one engine.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from conftest import make_run, small_study

from pipeline import engine
from pipeline.data import datasets
from pipeline.data.batches import ShuffledBatches
from pipeline.records.blocks import Block
from pipeline.records.run_record import RunRecord
from pipeline.speed.training import train_blocks
from pipeline.speed.turns import Task
from pipeline.study.schema import RunKey
from pipeline.study.variant import Variant
from pipeline.training import building, run
from pipeline.training.so_far import SoFar

EFFICIENTNET = {
    "name": "efficientnet",
    "depth": 0.1,
    "batch_norm_momentum": 0.8,
    "source": "pipeline/models/efficientnet.py",
}
TRANSFORMER = {"name": "transformer", "width": 8, "num_blocks": 2, "source": "pipeline/models/transformer.py"}
GENTLE = {"optimizer": {"name": "adam", "learning_rate": 1e-5}}


def short_run(folder: Path, **changes: object) -> RunRecord:
    """A run in float32."""
    return make_run(folder, small_study({"num_epochs": 3}, **changes), RunKey("wide", "float32", 0))


def trained(folder: Path) -> object:
    """The digest of the final weights."""
    return short_run(folder).final_weights_sha256


def losses(folder: Path) -> object:
    """Weights and the losses of the first three steps of a dense network, a convolutional one and a transformer."""
    found = {}
    kinds = {
        "dense": {},
        "convolutional": {"model": EFFICIENTNET, "image_size": 32} | GENTLE,
        "transformer": {"model": TRANSFORMER} | GENTLE,
    }
    for name, changes in kinds.items():
        recipe = small_study(changes).benchmarks["wide"]
        with contextlib.chdir(folder):
            data = datasets.load_dataset("mnist", recipe.split)
        model, digest = building.build_model(recipe, "float32", data.num_classes, data.num_channels, seed=3)
        plain = Variant(policy="float32", batch_multiplier=1)
        building.compile_model(model, recipe, plain)
        batches = ShuffledBatches(data.train, recipe.batch_size, seed=3)
        steps = [float(model.train_on_batch(*batches[0])[0])]
        for _ in range(2):
            model.reset_metrics()
            steps.append(float(model.train_on_batch(*batches[0])[0]))
        found[name] = {"weights": digest, "labels": batches[0][1].tolist(), "losses": steps}
    return found


SHIFTED = {"name": "random_translation", "height_factor": 0.1, "width_factor": 0.1}
AUGMENTED = {"augmentation": [{"name": "random_flip"}, SHIFTED], "num_epochs": 3}


def fed(folder: Path, custom: int) -> object:
    """Final weights of a run that is fed by the host, and of one that is fed from the device.

    Images are augmented, and the last batch is smaller.
    """
    variant = {"policy": "float32", "batch_multiplier": 1, "loop": "custom" if custom else "fit"}
    study = small_study(AUGMENTED, variants={"float32": variant})
    found = []
    for on_device in (False, True):
        engine.keeps_images = lambda _, on_device=on_device: on_device
        record = make_run(folder, study, RunKey("wide", "float32", 0))
        found.append([record.images_on_device, record.final_weights_sha256])
    return found


def turns(_: Path) -> object:
    """Blocks of turns, fed by the host and from the device; the last has more steps than an epoch."""
    study = small_study(AUGMENTED)
    found = []
    for on_device in (False, True):
        engine.keeps_images = lambda _, on_device=on_device: on_device
        blocks: list[Block] = []
        train_blocks(study, "wide", "mixed", iter([Task(2), Task(2), Task(7)]), blocks.append)
        found.append([(block.num_steps, block.num_images, block.loss) for block in blocks])
    return found


def killed(folder: Path, number: int, epoch: int) -> object:
    """A run that is killed in the middle of `epoch`, or, where that is 0, not at all.

    Its loss scale doubles in every epoch, its batch norm has moving averages.
    """
    recipe = {"model": EFFICIENTNET, "image_size": 32, "num_epochs": 4} if number == 0 else {"num_epochs": 4}
    mixed = {"policy": "mixed_float16", "batch_multiplier": 1, "loss_scale": {"mode": "dynamic", "growth_steps": 3}}
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}}
    variants["mixed"] = mixed | {"loop": "custom" if number == 2 else "fit"}
    study = small_study(recipe, variants=variants, compilation_cache=engine.NAME == "jax")

    def kill(clock: run.EpochClock, batch: int, **_: object) -> None:
        if len(clock.epochs) + 1 == epoch and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    run.EpochClock.on_train_batch_end = kill
    return make_run(folder, study, RunKey("wide", "mixed", 0)).model_dump()


def compilations(folder: Path) -> object:
    """Count XLA's compilations before and after the end of the first epoch, whose last batch is smaller."""
    import jax

    counts: list[int] = [0]

    def listen(event: str, _: float, **__: object) -> None:
        counts[-1] += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(listen)

    def after_epoch(so_far: SoFar) -> None:
        if len(so_far.epochs) == len(counts):
            counts.append(0)

    study = small_study({"num_epochs": 4})
    make_run(folder, study, RunKey("wide", "float32", 0), tell=after_epoch)
    return counts


def cached(folder: Path) -> object:
    """Return whether XLA's compiled steps are kept, and found again."""
    import jax

    events: list[str] = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    scores = short_run(folder, compilation_cache=True).scores
    assert (folder / ".cache" / "xla").is_dir()
    return {
        "losses": [scores.test_loss],
        "hits": events.count("/jax/compilation_cache/cache_hits"),
        "misses": events.count("/jax/compilation_cache/cache_misses"),
    }


if __name__ == "__main__":
    function, folder, *numbers = sys.argv[1:]
    os.chdir(folder)
    print("\n" + json.dumps(globals()[function](Path(folder), *map(int, numbers))))
