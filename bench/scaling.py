"""What comparing costs: time and memory of `stages.compare` on made-up studies. Prints one JSON line a size."""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import yaml

from pipeline.records import Disturbance, EpochRecord, RunRecord, write_run
from pipeline.study import RunKey, Study, load_study

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
    "runtime": "cpu",
    "lock_sha256": "same",
    "image": None,
    "git_commit": None,
    "load_average": 0.0,
}


def write_study(folder: Path, num_runs: int) -> Study:
    """Finished runs of a study of 10 benchmarks (one for fewer than 100 runs) × 10 variants under `folder`.

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
        | {"variants": variants, "deviations": {}}
        | {"comparison": {"baseline": "float32_1x", "num_warmup_epochs": 1, "margin_pp": dict.fromkeys(names, 0.2)}}
    )
    (folder / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")), encoding="utf-8")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, NUM_EXAMPLES)
    for key in study.runs():
        predicted = np.where(rng.random(NUM_EXAMPLES) < 0.9, labels, 0)
        epochs = [_epoch(number, float(rng.lognormal(0, 0.1))) for number in range(1, recipe["num_epochs"] + 1)]
        record = _record(study, key, epochs, float((labels == predicted).mean()))
        write_run(folder, record, epochs, labels, predicted)
    return study


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
    benchmark, variant = study.benchmarks[key.benchmark], study.variants[key.variant]
    fields: dict[str, object] = dict.fromkeys(RunRecord.model_fields)
    fields |= {name: 0 for name, field in RunRecord.model_fields.items() if field.annotation in (int, float, bool)}
    fields |= {name: "same" for name, field in RunRecord.model_fields.items() if field.annotation is str}
    return RunRecord.model_validate(
        fields
        | {"schema_version": RunRecord.model_fields["schema_version"].default}
        | key._asdict()
        | {"outcome": "completed", "loop": variant.loop, "loss_scale": variant.loss_scale.mode}
        | {"overflow": "step taken", "campaign": study.campaign, "engine": study.engine, "devices": study.devices}
        | {"policy": variant.policy, "test_metrics": {}}
        | {"batch_size": benchmark.batch_size * variant.batch_multiplier, "image_size": benchmark.image_size}
        | {"num_train_examples": benchmark.split.num_train_examples}
        | {"num_validation_examples": benchmark.split.num_validation_examples}
        | {"final_test_accuracy": accuracy, "num_epochs": len(epochs)}
        | {"first_epoch_seconds": epochs[0].train_seconds}
        | {"steady_epoch_seconds": median(epoch.train_seconds for epoch in epochs[1:])}
        | {"excluded_epochs": [1]}
        | {"disturbance": dict.fromkeys(Disturbance.model_fields), "environment": ENVIRONMENT}
    )


def measure(folder: Path, num_runs: int) -> dict[str, float | int]:
    """Seconds, CPU seconds and peak resident bytes of comparing `num_runs` runs, start of the process included."""
    write_study(folder, num_runs)
    # The kernel hands a parent's peak on to its children's resource usage; the process's own status starts anew.
    compare = (
        "import runpy; runpy.run_module('stages.compare', run_name='__main__'); print(open('/proc/self/status').read())"
    )
    used, started = _cpu_seconds(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", compare],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - started
    kibibytes = next(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("VmHWM"))
    return {
        "num_runs": num_runs,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(_cpu_seconds() - used, 2),
        "peak_resident_bytes": kibibytes * 1024,
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
