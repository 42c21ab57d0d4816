"""Small studies and fake data. Nothing here needs a network or an accelerator."""

import contextlib
import copy
import hashlib
import itertools
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster.small_slurm import slurm  # noqa: F401  a fixture for all of tests/cluster
from filelock import FileLock
from xdist.scheduler import LoadScopeScheduling

from pipeline.records.blocks import REPEAT, Launch, PlacedBlock
from pipeline.records.run_record import EpochRecord, Outcome, Part, RunRecord, planned, write_run
from pipeline.speed.measuring import write_measurement
from pipeline.speed.turns import Measurement
from pipeline.statistics.speeds import Speeds, speeds_of
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import expected_dtypes

ENGINE = os.environ.get("KERAS_BACKEND", "tensorflow")  # tests/engines/test_engines.py runs some tests on the other one
REPOSITORY = Path(__file__).parent.parent


class Scheduling(LoadScopeScheduling):
    """Hands the largest groups to the workers first, then the other tests one by one.

    One worker runs the tests of what takes long to make, or is there once on a machine: those of a rendered report, and
    those of each file that `make test` leaves out.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.endswith("test_reporting.py") or "/publication/" in file:
            return "a rendered report"
        return nodeid if file.startswith(("tests/pipeline/", "tests/stages/", "tests/docs/")) else file


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist 3.8, whose --dist=loadgroup has no effect with pytest 9.2
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    return Scheduling(config, log)


MakeOnce = Callable[[str, Callable[[Path], object]], Path]
SPEED = {"budget_seconds": 1, "target_half_width": 0.05}


def small_study(wide: Mapping[str, Any] = {}, **changes) -> Study:
    """Two benchmarks on 8 × 8 images; mixed_bfloat16 runs on one of them only, whose recipe `wide` changes."""
    values = {
        "name": "small",
        "description": "for tests",
        "campaign": "first",
        "seeds": [0, 1, 2],
        "datasets": {"mnist": {"tfds": "mnist"}},
        "benchmarks": {"wide": benchmark(**{"units": 16} | wide), "narrow": benchmark(units=8)},
        "variants": {
            "float32": {"policy": "float32", "batch_multiplier": 1},
            "float32_2x": {"policy": "float32", "batch_multiplier": 2},
            "mixed": {"policy": "mixed_bfloat16", "batch_multiplier": 1, "benchmarks": ["wide"]},
            "mixed_2x": {"policy": "mixed_bfloat16", "batch_multiplier": 2, "benchmarks": ["wide"]},
        },
        "comparison": {"baseline": "float32", "margin_pp": {"wide": 1.0, "narrow": 1.0}},
        "speed": SPEED,
    }
    values |= changes
    return Study.model_validate(values)


def benchmark(units: int, **changes) -> dict:
    return {
        "dataset": "mnist",
        "split": {"num_train_examples": 40, "num_validation_examples": 10, "shuffle_seed": 7},
        "image_size": 8,
        "model": {"name": "dense", "units": units, "source": "pipeline/models/dense.py"},
        "optimizer": {"name": "adam", "learning_rate": 0.01},
        "batch_size": 16,
        "evaluation_batch_size": 8,
        "num_epochs": 2,
    } | changes


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with the arrays of a tiny data set, `data/mnist`: 60 training and 20 test images in 10 classes."""
    write_data(tmp_path)
    return tmp_path


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of the test's own, which is that of `workspace`, too."""
    monkeypatch.chdir(tmp_path)


def write_data(root: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 60), ("test", 20)):
        labels = np.arange(count) % 10
        arrays[f"{part}_images"] = (labels[:, None, None, None] * 25 + rng.integers(0, 20, (count, 8, 8, 1))).astype(
            np.uint8
        )
        arrays[f"{part}_labels"] = labels
    write_arrays(root, "mnist", arrays, num_classes=10)


def write_arrays(root: Path, name: str, arrays: dict[str, np.ndarray], num_classes: int) -> None:
    """A prepared data set under `root`, as stages.download leaves it."""
    folder = root / "data" / name
    folder.mkdir(parents=True)
    for array_name, array in arrays.items():
        np.save(folder / f"{array_name}.npy", array)
    description = {
        "name": f"{name}/0.0.0",
        "image_shape": list(arrays["train_images"].shape[1:]),
        "classes": [str(label) for label in range(num_classes)],
        "sha256": {array_name: hashlib.sha256(array.data).hexdigest() for array_name, array in arrays.items()},
    }
    (folder / "dataset.json").write_text(json.dumps(description))


@pytest.fixture(scope="session")
def made_once(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Return a folder that the first worker to ask for it makes, and all of them share. Copy it before a change."""
    place = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        place = place.parent

    def share(name: str, make: Callable[[Path], object]) -> Path:
        folder, made = place / name, place / f"{name}.made"
        with FileLock(place / f"{name}.lock"):
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                made.touch()
        return folder

    return share


@pytest.fixture(scope="session")
def rendered(made_once: MakeOnce) -> Path:
    """A folder with the finished runs of the small study, its results and its report. Copy it before a change."""
    from reports import prepare, render

    def make(folder: Path) -> None:
        prepare(folder)
        render(folder)

    return made_once("rendered", make)


@pytest.fixture
def copied(rendered: Path, tmp_path: Path) -> Path:
    """A copy of that study to change."""
    return Path(shutil.copytree(rendered, tmp_path / "copy", symlinks=True))


@pytest.fixture(scope="session")
def archive(rendered: Path, made_once: MakeOnce) -> Path:
    """The archive of that study."""
    from pipeline.publication.crate import publish

    return made_once("archive", lambda folder: publish(rendered, folder / "study.zip")) / "study.zip"


ENVIRONMENT = {
    "python": "3.11",
    "operating_system": "Linux 6",
    "machine": "x86_64",
    "cpu": "Example CPU",
    "cpu_features": ["avx2"],
    "num_cpus": 2,
    "memory_bytes": 2**34,
    "accelerators": [],
    "driver": None,
    "packages": {"keras": "3"},
    "kernels": "Eigen",
    "runtime": "cpu",
    "lock_sha256": "c" * 64,
    "image": None,
    "git_commit": "c",
}


def planned_record(key: RunKey, study: Study | None = None, **changes) -> RunRecord:
    """Return a record as the study says it should be, except for `changes`: values of its fields, or of their parts."""
    plan = planned(study or small_study(), key)
    is_completed = changes.get("outcome", "completed") == "completed"
    values = {
        **key._asdict(),
        "outcome": "completed",
        "planned": plan.model_dump(),
        "num_parameters": 100,
        "num_test_examples": 1000,
        "num_epochs": plan.num_epochs,
        "times": {"startup_seconds": 1.0, "run_seconds": 10.0, "max_run_seconds": None, "fault": None},
        "memory": {"peak_bytes": 2**20, "peak_kind": "resident_set"},
        "scores": {"test_loss": 0.5, "test_accuracy": 0.9} if is_completed else {},
        "initial_weights_sha256": hashlib.sha256(f"{key.benchmark}{key.seed}".encode()).hexdigest(),
        "final_weights_sha256": hashlib.sha256(repr(key).encode()).hexdigest() if is_completed else None,
        "data_sha256": "d" * 64,
        "data_source": "this repository",
        "resumed": False,
        "started_at": "2026-01-01T00:00:00+00:00",
        "disturbance": {"other_cpu_share": 0.02},
        "environment": copy.deepcopy(ENVIRONMENT),
    }
    for name, value in changes.items():
        values[name] = values[name] | value if isinstance(value, dict) else value
    dtypes = expected_dtypes(values["planned"]["policy"])._asdict()
    return RunRecord.model_validate({f"{name}_dtype": dtype for name, dtype in dtypes.items()} | values)


def changed(record: RunRecord, **changes) -> RunRecord:
    """Return the record with `changes`: values of its fields, or of their parts."""
    update = {}
    for name, value in changes.items():
        part = getattr(record, name)
        update[name] = part.model_copy(update=value) if isinstance(part, Part) else value
    return record.model_copy(update=update)


def epoch_records(*train_seconds: float) -> list[EpochRecord]:
    return [
        EpochRecord(
            epoch=index + 1,
            since_start=index + 1,
            train_seconds=seconds,
            validation_seconds=0.1,
            train_loss=1.0,
            train_accuracy=0.5,
            validation_loss=1.0,
            validation_accuracy=0.5,
            loss_scale=None,
            skipped_steps=0,
        )
        for index, seconds in enumerate(train_seconds)
    ]


def timed_blocks(
    study: Study,
    benchmark: str,
    seconds: Mapping[str, float],
    spread: float = 0.0,
    failed: Mapping[str, Outcome] = {},
    peaks: Mapping[str, int | None] = {},
) -> list[PlacedBlock]:
    """Blocks of three launches of two turns; `seconds` of an epoch by variant, else one, which vary by `spread`.

    Those of the variants in `failed` end so in the first launch. `peaks` are bytes by variant, else 2**20; before the
    turns of a launch they are twice that.
    """
    recipe, variants = study.benchmarks[benchmark], study.variants_of(benchmark)
    timed = dict.fromkeys(study.measured_as(benchmark).values())
    names = [study.comparison.baseline, REPEAT, *(name for name in timed if name != study.comparison.baseline)]
    wiggle = np.random.default_rng(0).normal(0.0, spread, (len(names), 3))
    found = []
    for launch, turn, (place, name) in itertools.product((1, 2, 3), (0, 1, 2), enumerate(names)):
        where = {
            "launch": launch,
            "turn": turn,
            "place": 1 + (place + turn) % len(names) if turn else 0,
            "variant": name,
        }
        if name in failed:
            if (launch, turn) == (1, 0):
                found.append(PlacedBlock(**where, outcome=failed[name]))
            continue
        multiplier = 1 if name == REPEAT else variants[name].batch_multiplier
        num_images = recipe.batch_size * multiplier
        epoch_seconds = seconds.get(study.comparison.baseline if name == REPEAT else name, 1.0) * math.exp(
            wiggle[place, launch - 1]
        )
        peak = peaks.get(name, 2**20)
        wall_seconds = epoch_seconds * num_images / recipe.split.num_train_examples
        found.append(
            PlacedBlock(
                **where,
                outcome="completed",
                num_steps=1,
                num_images=num_images,
                wall_seconds=wall_seconds,
                cpu_seconds=2 * wall_seconds,
                num_validation_images=recipe.split.num_validation_examples,
                validation_seconds=1.0,
                peak_memory_bytes=peak and peak * (1 if turn else 2),
                other_cpu_share=0.02,
            )
        )
    return found


def timed(study: Study, seconds: Mapping[str, float], **how: Any) -> dict[str, Speeds]:
    return {name: speeds_of(study, name, timed_blocks(study, name, seconds, **how)) for name in study.benchmarks}


def write_speeds(
    root: Path,
    study: Study,
    seconds: Mapping[str, float] = {},
    environment: Mapping[str, Any] | None = None,
    **how: Any,
) -> None:
    """The files of the speed stage."""
    for name in study.benchmarks:
        blocks = timed_blocks(study, name, seconds, **how)
        launches = [Launch(environment=dict(environment or ENVIRONMENT))]
        measurement = Measurement(blocks, launches, "the budget is spent", spent_seconds=1.0)
        folder = root / "results" / "speed" / name
        folder.mkdir(parents=True, exist_ok=True)
        write_measurement(measurement, folder)


def make_run(root: Path, study: Study, key: RunKey, tell: Callable[[Any], None] = lambda _: None) -> RunRecord:
    """The run `key`, really trained, in its folder under `root`."""
    from pipeline.training import run

    folder = root / key.directory
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(root):
        return run.train(study, key, folder, tell)


def predictions(record: RunRecord) -> np.ndarray:
    """The class that the run predicts for each test example, whose class is 0: 0 as often as it is right, then 1."""
    num_right = round((record.scores.test_accuracy or 0) * record.num_test_examples)
    return (np.arange(record.num_test_examples) >= num_right).astype(np.int64)


def write_small_run(root: Path, record: RunRecord, *train_seconds: float) -> RunRecord:
    """Write the run with these epochs, and return its record, whose times are those of the epochs."""
    epochs = epoch_records(*train_seconds)
    run_seconds = max(record.times.run_seconds, 2.0 + sum(train_seconds) + 0.1 * len(epochs))
    record = changed(record, num_epochs=len(epochs), times={"run_seconds": run_seconds})
    labels, predicted = np.zeros(record.num_test_examples, np.int64), np.empty(0, np.int64)
    if record.outcome == "completed" and epochs:
        predicted = predictions(record)
        epochs[-1] = epochs[-1].model_copy(update={"train_loss": 0.5, "validation_accuracy": 0.9})
        record = changed(record, planned={"num_epochs": len(epochs)})
    folder = root / record.key.directory
    folder.mkdir(parents=True, exist_ok=True)
    write_run(folder, record, epochs, labels, predicted)
    return record
