"""Measure a run beside a plain script's: overhead, images per second, peak memory.

Overhead is what a process takes besides steady epochs, the same of both sides:

    seconds of the process, from its start to its end
    - seconds of training and of validation, summed over all epochs
    + what the first epoch took longer than a later one, in training and in validation

It holds the imports, start-up, data, tracing, and the test set at the end. The first epoch's excess is part of it
because the sides trace at different times: ours traces prediction before the first epoch, Keras in the first
validation; there, too, the plain script reads its data. `Times` of `bench.peer` cuts epochs as
`pipeline.training.clock` does.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bench.figures import figure
from bench.processes import REPOSITORY, Cost, in_turn, measure
from pipeline.comparison.finished_runs import read_epochs, read_record
from pipeline.files import yaml_files
from pipeline.study.schema import RunKey, Study

OURS = "ours"
PEERS = {
    "pipeline": "a plain Keras script on tf.data, as the CIFAR-100 notebook",
    "arrays": "a plain Keras script on float32 arrays, as the MNIST notebook",
}
VARIANTS = ("float32", "float32_2x", "mixed_float16", "mixed_float16_2x", "mixed_bfloat16")
MNIST, CIFAR = "mnist_dense", "cifar100_efficientnet_b0"
OVERHEAD_TARGET = 0.45
MEMORY_TARGETS = {CIFAR: 0.7}
SPEED_TARGETS = {(MNIST, 28): 1.0, (CIFAR, 32): 1.1, (CIFAR, 224): 1.0}
# Two cores train 10 to 40 images of 224 × 224 a second: two or four steps an epoch have to do.
FULL_SIZE = {
    "image_size": 224,
    "split": {"num_train_examples": 64, "num_validation_examples": 16, "shuffle_seed": 42},
    "batch_size": 16,
    "evaluation_batch_size": 16,
    "model": {"name": "efficientnet", "number": 0, "source": "pipeline/models/efficientnet.py"},
}
SMALL: dict[str, dict[str, Any]] = {
    MNIST: {"split": {"num_train_examples": 17_000, "num_validation_examples": 3_000, "shuffle_seed": None}},
    CIFAR: {"split": {"num_train_examples": 480, "num_validation_examples": 120, "shuffle_seed": 42}},
}


class Run(NamedTuple):
    overhead_seconds: float
    images_per_second: float
    peak_resident_bytes: int
    trained: tuple[int, int, int, int]  # parameters, batch size, epochs, steps an epoch


def overhead(seconds: float, train_seconds: Sequence[float], validation_seconds: Sequence[float]) -> float:
    """Return the overhead as the head of this module defines it.

    Both sequences have an entry an epoch, two at least.
    """
    excess = sum(first - median(later) for first, *later in (train_seconds, validation_seconds))
    return seconds - sum(train_seconds) - sum(validation_seconds) + excess


def composed(profile: str) -> Study:
    """Return the study of that profile, whatever params.yaml says."""
    with initialize_config_dir(str(REPOSITORY / "conf"), version_base=None):
        values = compose("config", overrides=[f"profile={profile}"])
    return Study.model_validate(OmegaConf.to_container(values, resolve=True))


def quick_study(changes: Mapping[str, Mapping[str, Any]] | None = None) -> Study:
    """Return one seed of the profile `quick`, with `changes` to benchmarks by name, and `VARIANTS` of all of them."""
    values = composed("quick").model_dump(mode="json")
    for name in VARIANTS:
        values["variants"][name]["benchmarks"] = None
    for name, change in (changes or {}).items():
        values["benchmarks"][name] |= change
    return Study.model_validate(values | {"seeds": [0]})


def prepare(folder: Path, study: Study, num_fake_examples: tuple[int, int] | None = None) -> None:
    """Write the arrays of `study` under `folder`, from TFDS; or so many training and test examples of noise."""
    (folder / "params.yaml").write_text(yaml_files.dump(study.model_dump(mode="json")), encoding="utf-8")
    (folder / "requirements").symlink_to(REPOSITORY / "requirements")
    if num_fake_examples:
        from bench.fake_datasets import write_fake_tfds

        write_fake_tfds(folder / "tfds", [dataset.tfds for dataset in study.datasets.values()], *num_fake_examples)
    for dataset in study.datasets:
        _run(folder, "stages.download", "--dataset", dataset)


def _run(folder: Path, *module: str) -> Cost:
    """Run with the fake data sets of `folder` if it has some, else with the user's.

    Their path may start where the user is.
    """
    fake, users = folder / "tfds", os.environ.get("TFDS_DATA_DIR")
    data = fake if fake.exists() else users and Path(users).expanduser().absolute()
    variables = {"TFDS_DATA_DIR": str(data)} if data else {}
    return measure(sys.executable, "-m", *module, cwd=folder, variables=variables)


def measure_benchmark(
    folder: Path,
    study: Study,
    benchmark: str,
    variants: Sequence[str],
    repeats: int,
    peers: Sequence[str] = tuple(PEERS),
) -> list[dict[str, Any]]:
    """Measure `benchmark` in the folder that `prepare` made: speed of every variant, the rest of the first.

    In each turn every variant runs once on every side, in every other turn on ours last.
    """
    if benchmark != MNIST:  # whose notebook alone trains on arrays
        peers = ("pipeline",)
    ours: dict[str, list[Run]] = {variant: [] for variant in variants}
    theirs: dict[tuple[str, str], list[Run]] = {(variant, peer): [] for variant in variants for peer in peers}
    for turn in range(repeats):
        for variant in variants:
            for side in in_turn(turn, [OURS, *peers]):
                if side == OURS:
                    ours[variant].append(_ours(folder, RunKey(benchmark, variant, 0)))
                else:
                    settings = peer_settings(study, benchmark, variant, side)
                    theirs[variant, side].append(_peers(folder, settings))
            if any(theirs[variant, peer][-1].trained != ours[variant][-1].trained for peer in peers):
                raise RuntimeError(f"{benchmark} {variant}: the peer has not trained the same")
    size, rows = study.benchmarks[benchmark].image_size, []
    for (variant, peer), runs in theirs.items():
        where = {"benchmark": benchmark, "image_size": size, "variant": variant, "of": PEERS[peer]}
        if variant == variants[0] and size != FULL_SIZE["image_size"]:
            rows.append(_figure("overhead", "seconds", ours[variant], runs, target=OVERHEAD_TARGET, **where))
            target = MEMORY_TARGETS.get(benchmark)
            rows.append(_figure("peak_memory", "peak_resident_bytes", ours[variant], runs, target=target, **where))
        speed = {"better": "higher", "target": SPEED_TARGETS[benchmark, size]}
        rows.append(_figure("throughput", "images_per_second", ours[variant], runs, **speed, **where))
    return rows


def _figure(name: str, unit: str, ours: Sequence[Run], theirs: Sequence[Run], **options: Any) -> dict[str, Any]:
    field = "overhead_seconds" if name == "overhead" else unit
    values = ([getattr(run, field) for run in side] for side in (ours, theirs))
    return figure(name, unit, *values, **options)


def peer_settings(study: Study, benchmark: str, variant: str, peer: str) -> dict[str, Any]:
    """Return the settings with which `bench.peer` trains what `stages.train` does."""
    recipe, chosen = study.benchmarks[benchmark], study.variants[variant]
    decided = {"policy": chosen.policy, "batch_size": recipe.batch_size * chosen.batch_multiplier, "seed": 0}
    decided["tf32"] = chosen.tf32
    return recipe.model_dump(mode="json") | decided | {"input": peer}


def _ours(folder: Path, key: RunKey) -> Run:
    arguments = ("--benchmark", key.benchmark, "--variant", key.variant, "--seed", str(key.seed))
    cost = _run(folder, "stages.train", *arguments)
    record = read_record(key, folder)
    epochs = read_epochs(record, folder)
    train_seconds, validation_seconds = zip(
        *((epoch.train_seconds, epoch.validation_seconds) for epoch in epochs), strict=True
    )
    return Run(
        overhead(cost.seconds, train_seconds, validation_seconds),
        record.times.images_per_second or 0.0,
        cost.peak_resident_bytes,
        (record.num_parameters or 0, record.planned.batch_size, record.num_epochs, record.planned.steps_per_epoch),
    )


def _peers(folder: Path, settings: Mapping[str, Any]) -> Run:
    cost = _run(folder, "bench.peer", json.dumps(settings))
    # The engine may still write a warning while it ends.
    measured = json.loads(next(line for line in reversed(cost.printed.splitlines()) if line.startswith("{")))
    return Run(
        overhead(cost.seconds, measured["train_seconds"], measured["validation_seconds"]),
        measured["num_images_per_epoch"] / median(measured["train_seconds"][1:]),
        cost.peak_resident_bytes,
        tuple(measured[name] for name in ("num_parameters", "batch_size", "num_epochs", "steps_per_epoch")),
    )
