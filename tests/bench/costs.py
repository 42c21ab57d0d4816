"""Measure what a run costs beside a plain script's. Print a JSON line a figure, and all in the last line.

Each figure is a ratio to a stated peer that was measured in the same invocation, in turns. It takes some minutes on two
cores.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from pipeline.comparison.finished_runs import read_epochs, read_record
from pipeline.files import yaml_files
from pipeline.machine.hardware import cpu_model
from pipeline.store.making import Makers
from pipeline.study.schema import RunKey, Study

REPOSITORY = Path(__file__).parents[2]
LAUNCHER = Path(__file__).with_name("launch.py")
PEER = "a plain Keras script on tf.data, as the CIFAR-100 notebook"
VARIANT = "float32"
NUM_TURNS = 2
# Both sides read the same files of TFDS: noise in the shapes of MNIST and CIFAR-100.
FAKES = {"mnist_dense": "fashion_mnist", "cifar100_efficientnet_b0": "cifar10"}
NUM_FAKE_EXAMPLES = 20_000, 500
SMALL = {
    "mnist_dense": {"num_train_examples": 17_000, "num_validation_examples": 3_000, "shuffle_seed": None},
    "cifar100_efficientnet_b0": {"num_train_examples": 480, "num_validation_examples": 120, "shuffle_seed": 42},
}


class Cost(NamedTuple):
    """Hold what a process took. `peak_resident_bytes` is the largest of its own peak and those of its children."""

    seconds: float
    peak_resident_bytes: int
    printed: str


class Run(NamedTuple):
    overhead_seconds: float
    peak_resident_bytes: int
    trained: tuple[int, int, int, int]  # parameters, batch size, epochs, steps an epoch


def main() -> None:
    machine = {"cpu": cpu_model(), "num_cpus": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for row in measure_runs(Path(name)):
            print(json.dumps(row, ensure_ascii=False), flush=True)
            rows.append(row)
    print(json.dumps({"machine": machine, "figures": rows}, ensure_ascii=False))


def measure_runs(folder: Path) -> Iterator[dict[str, Any]]:
    """Measure a run of each benchmark in `folder`: ours and the peer's in turns, in every other turn ours last."""
    study = small_quick_study()
    prepare(folder, study)
    for benchmark in study.benchmarks:
        yield from measure_benchmark(folder, study, benchmark)


def small_quick_study() -> Study:
    """Return one seed of the profile `quick`, whatever params.yaml says, on few examples."""
    with initialize_config_dir(str(REPOSITORY / "conf"), version_base=None):
        values: Any = OmegaConf.to_container(compose("config", overrides=["profile=quick"]), resolve=True)
    for name, split in SMALL.items():
        values["benchmarks"][name] |= {"split": split, "dataset": FAKES[name]}
    return Study.model_validate(values | {"seeds": [0], "datasets": {name: {"tfds": name} for name in FAKES.values()}})


def prepare(folder: Path, study: Study) -> None:
    """Write the arrays of `study` under `folder`, of noise."""
    from fake_datasets import write_fake_tfds

    (folder / "params.yaml").write_text(yaml_files.dump(study.model_dump(mode="json")), encoding="utf-8")
    for name in ("pipeline", "requirements", "stages"):
        (folder / name).symlink_to(REPOSITORY / name)
    write_fake_tfds(folder / "tfds", list(study.datasets), *NUM_FAKE_EXAMPLES)
    for dataset in study.datasets:
        _run(folder, "stages.download", "--dataset", dataset)


def measure_benchmark(folder: Path, study: Study, benchmark: str) -> list[dict[str, Any]]:
    """Measure `benchmark` in the folder that `prepare` made: runs by themselves, and runs among others of a stage.

    In every other turn the sides are reversed: neither a run by itself nor the script's always comes first.
    """
    alone: list[Run] = []
    forked: list[Run] = []
    theirs: list[Run] = []
    with contextlib.chdir(folder), Makers(study, 1) as makers:
        _forked(makers, benchmark)  # which imports the engine
        for turn in range(NUM_TURNS):
            for side in [alone, forked, theirs][:: -1 if turn % 2 else 1]:
                if side is theirs:
                    side.append(_peers(folder, peer_settings(study, benchmark)))
                else:
                    side.append(_forked(makers, benchmark) if side is forked else _alone(folder, benchmark))
            if not theirs[-1].trained == forked[-1].trained == alone[-1].trained:
                raise RuntimeError(f"{benchmark}: the peer has not trained the same")
    return [
        figure(name, benchmark, field, *([getattr(run, field) for run in side] for side in (ours, theirs)))
        for name, field, ours in (
            ("overhead", "overhead_seconds", alone),
            ("overhead_forked", "overhead_seconds", forked),
            ("peak_memory", "peak_resident_bytes", alone),
        )
    ]


def peer_settings(study: Study, benchmark: str, variant: str = VARIANT) -> dict[str, Any]:
    """Return the settings with which `bench.peer` trains what `stages.train` does."""
    recipe, chosen = study.benchmarks[benchmark], study.variants[variant]
    decided = {"policy": chosen.policy, "batch_size": recipe.batch_size * chosen.batch_multiplier, "seed": 0}
    return recipe.model_dump(mode="json") | decided | {"tf32": chosen.tf32}


def _alone(folder: Path, benchmark: str) -> Run:
    """A run in a stage of its own, from the start of the stage to its end."""
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    shutil.rmtree(folder / "runs", ignore_errors=True)
    cost = _run(folder, "stages.train", "--benchmark", benchmark, "--run", f"{VARIANT}/0")
    return _finished(folder, benchmark, cost.seconds, cost.peak_resident_bytes)


def _forked(makers: Makers, benchmark: str) -> Run:
    """A run in a child of a process that has imported the engine, from its fork to its end."""
    key = RunKey(benchmark, VARIANT, 0)
    shutil.rmtree(key.directory, ignore_errors=True)
    key.directory.mkdir(parents=True)
    started = time.perf_counter()
    makers.make(key, lambda _: None, key.directory)
    return _finished(Path(), benchmark, time.perf_counter() - started, 0)


def _finished(root: Path, benchmark: str, seconds: float, peak_resident_bytes: int) -> Run:
    record = read_record(RunKey(benchmark, VARIANT, 0), root)
    epochs = read_epochs(record, root)
    return Run(
        overhead(seconds, [epoch.train_seconds for epoch in epochs], [epoch.validation_seconds for epoch in epochs]),
        peak_resident_bytes,
        (record.num_parameters or 0, record.planned.batch_size, record.num_epochs, record.planned.steps_per_epoch),
    )


def _peers(folder: Path, settings: Mapping[str, Any]) -> Run:
    cost = _run(folder, "bench.peer", json.dumps(settings))
    # The engine may still write a warning while it ends.
    measured = json.loads(next(line for line in reversed(cost.printed.splitlines()) if line.startswith("{")))
    return Run(
        overhead(cost.seconds, measured["train_seconds"], measured["validation_seconds"]),
        cost.peak_resident_bytes,
        tuple(measured[name] for name in ("num_parameters", "batch_size", "num_epochs", "steps_per_epoch")),
    )


def _run(folder: Path, *module: str, **variables: str) -> Cost:
    prepared = str(folder / "tfds")
    return run_and_measure(sys.executable, "-m", *module, cwd=folder, TFDS_DATA_DIR=prepared, **variables)


def run_and_measure(*command: str, cwd: Path, **variables: str) -> Cost:
    """Run `command` in `cwd`, with this repository's packages and these environment variables besides ours.

    Raises:
        RuntimeError: it failed; the text ends with what it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "cost.json")
        done = subprocess.run(
            [sys.executable, "-I", "-S", LAUNCHER, result, *command],
            cwd=cwd,
            env={**os.environ, **variables, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        cost = json.loads(result.read_text(encoding="ascii"))
    return Cost(cost["seconds"], cost["kibibytes"] * 1024, done.stdout)


def overhead(seconds: float, train_seconds: Sequence[float], validation_seconds: Sequence[float]) -> float:
    """Return what a process takes besides steady epochs, the same of both sides.

        seconds of the process, from its start to its end
        - seconds of training and of validation, summed over all epochs
        + what the first epoch took longer than a later one, in training and in validation

    Both sequences have an entry an epoch, two at least.

    It holds the imports, start-up, data, tracing, and the test set at the end. The first epoch's excess is part of it
    because the sides trace at different times: ours traces prediction before the first epoch, Keras in the first
    validation; there, too, the plain script reads its data. `Times` of `bench.peer` cuts epochs as
    `pipeline.training.clock` does.
    """
    excess = sum(first - median(later) for first, *later in (train_seconds, validation_seconds))
    return seconds - sum(train_seconds) - sum(validation_seconds) + excess


def figure(name: str, benchmark: str, field: str, ours: Sequence[float], peer: Sequence[float]) -> dict[str, Any]:
    """Compute the ratio of our cost to the peer's from interleaved repeats, in turn order: of medians, and by turn.

    `field` ends in the unit of the values: overhead_seconds, peak_resident_bytes.
    """
    unit = field.removeprefix("overhead_")
    by_turn = [mine / other for mine, other in zip(ours, peer, strict=True)]
    return {
        "name": name,
        "benchmark": benchmark,
        "peer": PEER,
        f"ours_{unit}": _rounded(median(ours)),
        f"peer_{unit}": _rounded(median(peer)),
        "ratio": round(median(ours) / median(peer), 3),
        "ratio_low": round(min(by_turn), 3),
        "ratio_high": round(max(by_turn), 3),
        "repeats": len(ours),
    }


def _rounded(value: float) -> float:
    return round(value, 3) if value < 1000 else round(value)


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__).parse_args()
    main()
