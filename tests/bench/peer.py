"""Train one run as a notebook does it: the peer that `stages.train` is measured against.

A plain script on Keras and TFDS, on the same prepared files, with the same model, recipe and number of epochs. It takes
the settings of a run as JSON and prints its measurements as JSON, last of all.

Its input is the CIFAR-100 notebook's: a `tf.data` pipeline that is shuffled and cut once, cached, repeated, shuffled,
batched, resized and rescaled.
"""

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
import tensorflow_datasets as tfds

MODELS = Path(__file__).parents[2] / "pipeline" / "models"


class Times(keras.callbacks.Callback):
    """Time the training and the validation of each epoch, as the project's own clock cuts them."""

    def __init__(self) -> None:
        super().__init__()
        self.train_seconds: list[float] = []
        self.validation_seconds: list[float] = []
        self._started = self._trained = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        tf.test.experimental.sync_devices()
        self._started = time.perf_counter()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        tf.test.experimental.sync_devices()
        self._trained = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.train_seconds.append(self._trained - self._started)
        self.validation_seconds.append(time.perf_counter() - self._trained)


def train(settings: dict[str, Any]) -> dict[str, Any]:
    """Train and evaluate; `settings` are a benchmark of a study, and `policy`, `batch_size`, `seed` and `tf32`."""
    keras.utils.set_random_seed(settings["seed"])
    keras.config.set_dtype_policy(settings["policy"])
    tf.config.experimental.enable_tensor_float_32_execution(settings["tf32"])
    image_shape, num_classes, steps_per_epoch, training, validation, test = read(settings)
    model = build(settings["model"], image_shape, num_classes)
    optimizer = {"adam": keras.optimizers.Adam, "rmsprop": keras.optimizers.RMSprop}[settings["optimizer"]["name"]]
    model.compile(
        optimizer=optimizer(learning_rate=settings["optimizer"]["learning_rate"]),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # as in the study's variants; Keras would turn it on where there is a GPU
        steps_per_execution=settings["steps_per_execution"],
    )
    times = Times()
    model.fit(
        training,
        steps_per_epoch=steps_per_epoch,
        shuffle=False,
        epochs=settings["num_epochs"],
        validation_data=validation,
        callbacks=[times],
    )
    _, accuracy = model.evaluate(test)
    return {
        "num_parameters": model.count_params(),
        "batch_size": settings["batch_size"],
        "num_epochs": len(times.train_seconds),
        "steps_per_epoch": steps_per_epoch,
        "train_seconds": times.train_seconds,
        "validation_seconds": times.validation_seconds,
        "test_accuracy": float(accuracy),
    }


def build(model: dict[str, Any], image_shape: tuple[int, int, int], num_classes: int) -> keras.Model:
    """Build the project's network, from its file alone: a notebook would not import the rest of the package."""
    specification = importlib.util.spec_from_file_location(f"network_{model['name']}", MODELS / f"{model['name']}.py")
    if specification is None or specification.loader is None:
        raise FileNotFoundError(model["name"])
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module  # where dataclasses look their module up
    specification.loader.exec_module(module)
    arguments = {name: value for name, value in model.items() if name not in ("name", "source")}
    return module.build(num_classes=num_classes, image_shape=image_shape, **arguments)


def read(settings: dict[str, Any]) -> tuple[Any, ...]:
    (train, test), info = tfds.load(
        settings["dataset"],
        split=["train", "test"],
        as_supervised=True,
        with_info=True,
    )
    split, size = settings["split"], settings["image_size"]
    if split["shuffle_seed"] is not None:
        num_examples = info.splits["train"].num_examples
        train = train.shuffle(num_examples, seed=split["shuffle_seed"], reshuffle_each_iteration=False)
    held_out = train.skip(split["num_train_examples"]).take(split["num_validation_examples"])

    def prepare(images: Any, labels: Any) -> tuple[Any, Any]:
        return tf.image.resize(images, (size, size)) / 255, labels

    steps_per_epoch = -(-split["num_train_examples"] // settings["batch_size"])
    batches = (
        train.take(split["num_train_examples"])
        .cache()
        .repeat()
        .shuffle(split["num_train_examples"], seed=settings["seed"])
        .batch(settings["batch_size"])
        .map(prepare)
    )
    validation = held_out.cache().batch(settings["evaluation_batch_size"]).map(prepare)
    channels, num_classes = info.features["image"].shape[-1], info.features["label"].num_classes
    return (
        (size, size, channels),
        num_classes,
        steps_per_epoch,
        batches,
        validation,
        test.batch(settings["evaluation_batch_size"]).map(prepare),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.peer", description=__doc__)
    parser.add_argument("settings", type=json.loads, help="what decides the run, as JSON")
    print(json.dumps(train(parser.parse_args().settings)))
