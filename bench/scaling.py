"""Measure comparing: time and memory of `stages.compare` on made-up studies. Print one JSON line a size."""

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from bench import processes
from pipeline.files import yaml_files
from pipeline.records.measured import Memory
from pipeline.records.planned import planned
from pipeline.records.schema import Disturbance, EpochRecord, RunRecord
from pipeline.records.sketch import NUM_BUCKETS
from pipeline.records.writing import WEIGHTS, epoch_scores, epoch_times, write_run
from pipeline.speed.blocks import REPEAT, PlacedBlock
from pipeline.speed.measuring import write_blocks, write_circumstances
from pipeline.speed.turns import Measurement
from pipeline.study.schema import RunKey, Study, load_study

REPOSITORY = Path(__file__).parent.parent
NUM_EXAMPLES = 10_000  # of the test set, as in MNIST and CIFAR-100
# Of a machine that there is not, with all that a report prints.
ENVIRONMENT = {
    "python": "3",
    "operating_system": "none",
    "machine": "none",
    "cpu": "none",
    "cpu_features": [],
    "num_cpus": 1,
    "memory_bytes": 2**30,
    "accelerators": [],
    "driver": None,
    "packages": {},
    "kernels": "none",
    "runtime": "cpu",
    "lock_sha256": None,
    "image": None,
    "git_commit": None,
    "load_average": 0.0,
}


def write_study(folder: Path, num_runs: int) -> Study:
    """Write finished runs of a study of 10 benchmarks (one for fewer than 100 runs) × 10 variants under `folder`.

    `num_runs` is a multiple of 10, and of 100 from there on.
    """
    project = load_study(REPOSITORY / "params.yaml").model_dump(mode="json")
    recipe = project["benchmarks"]["mnist_dense"] | {"num_epochs": 20}
    names = [f"benchmark_{index}" for index in range(10 if num_runs >= 100 else 1)]
    variants = {
        f"{policy}_{multiplier}x": {"policy": policy, "batch_multiplier": multiplier}
        for policy in ("float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")
        for multiplier in (1, 2)
    }
    study = Study.model_validate(
        project
        | {"seeds": list(range(num_runs // (10 * len(names)))), "benchmarks": dict.fromkeys(names, recipe)}
        | {"variants": variants, "deviations": {}, "num_seeds": {}}
        | {"comparison": {"baseline": "float32_1x", "num_warmup_epochs": 1, "margin_pp": dict.fromkeys(names, 0.2)}}
    )
    (folder / "params.yaml").write_text(yaml_files.dump(study.model_dump(mode="json")), encoding="utf-8")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, NUM_EXAMPLES)
    for key in study.runs():
        predicted = np.where(rng.random(NUM_EXAMPLES) < 0.9, labels, 0)
        epochs = [_epoch(number, float(rng.lognormal(0, 0.1))) for number in range(1, recipe["num_epochs"] + 1)]
        record = _record(study, key, epochs, float((labels == predicted).mean()))
        weights = {name: rng.normal(size=NUM_BUCKETS).astype(np.float32) for name in WEIGHTS}
        write_run(folder, record, epochs, labels, predicted, weights)
    (folder / "results/speed").mkdir(parents=True, exist_ok=True)
    for name in names:
        blocks = list(_blocks(study, name, rng))
        write_blocks(blocks, folder / "results/speed" / f"{name}.csv")
        measurement = Measurement(blocks, "the budget is spent", side_by_side=True, spent_seconds=1.0)
        write_circumstances(study, measurement, record.environment, folder / "results/speed" / f"{name}.json")
    return study


def _blocks(study: Study, benchmark: str, rng: np.random.Generator) -> Iterator[PlacedBlock]:
    """Yield two launches of ten turns, of one speed but for chance."""
    multipliers = {name: variant.batch_multiplier for name, variant in study.variants.items()} | {REPEAT: 1}
    for launch, turn, (place, name) in product((1, 2), range(1, 11), enumerate(multipliers, start=1)):
        yield PlacedBlock(
            launch=launch,
            turn=turn,
            place=place,
            variant=name,
            outcome="completed",
            num_steps=1,
            num_images=study.benchmarks[benchmark].batch_size * multipliers[name],
            wall_seconds=multipliers[name] * float(rng.lognormal(0, 0.05)),
            num_validation_images=2000,
            validation_seconds=0.1,
        )


def _epoch(number: int, seconds: float) -> EpochRecord:
    return EpochRecord(
        epoch=number,
        since_start=number,
        train_seconds=seconds,
        validation_seconds=0.1,
        train_loss=1.0,
        train_accuracy=0.5,
        validation_loss=1.0,
        validation_accuracy=0.5,
        loss_scale=None,
        skipped_steps=0,
        images_per_second=48_000 / seconds,
    )


def _record(study: Study, key: RunKey, epochs: Sequence[EpochRecord], accuracy: float) -> RunRecord:
    times = epoch_times(epochs)
    fields: dict[str, object] = dict.fromkeys(RunRecord.model_fields)
    fields |= {name: 0 for name, field in RunRecord.model_fields.items() if field.annotation in (int, float, bool)}
    fields |= {name: "same" for name, field in RunRecord.model_fields.items() if field.annotation is str}
    return RunRecord.model_validate(
        fields
        | {"schema_version": RunRecord.model_fields["schema_version"].default}
        | key._asdict()
        | {"outcome": "completed", "planned": planned(study, key), "overflow": "step taken"}
        | {"num_test_examples": NUM_EXAMPLES, "num_epochs": len(epochs)}
        | {
            "times": times
            | {"images_per_second": planned(study, key).num_train_examples / times["steady_epoch_seconds"]}
            | {"max_run_seconds": None}
            | {"run_seconds": sum(epoch.train_seconds + epoch.validation_seconds for epoch in epochs), "fault": None},
            "memory": dict.fromkeys(Memory.model_fields),
            "scores": epoch_scores(epochs, "completed") | {"test_accuracy": accuracy},
        }
        | {"data_sha256": "0" * 64, "started_at": "2026-01-01T00:00:00+00:00"}
        | {"disturbance": dict.fromkeys(Disturbance.model_fields), "environment": ENVIRONMENT}
    )


def measure(folder: Path, num_runs: int) -> dict[str, float | int]:
    """Return seconds, CPU seconds and peak bytes of a process that compares `num_runs` runs, from its start."""
    write_study(folder, num_runs)
    used = _cpu_seconds()
    cost = processes.measure(sys.executable, "-m", "stages.compare", cwd=folder)
    return {
        "num_runs": num_runs,
        "seconds": round(cost.seconds, 2),
        "cpu_seconds": round(_cpu_seconds() - used, 2),
        "peak_resident_bytes": cost.peak_resident_bytes,
    }


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--num-runs", type=int, nargs="+", default=[10, 100, 1000], help="multiples of 10, then of 100")
    for num_runs in parser.parse_args().num_runs:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"bench": "comparison"} | measure(Path(folder), num_runs)), flush=True)


if __name__ == "__main__":
    main()
