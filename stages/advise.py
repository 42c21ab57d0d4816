"""Advise whether to turn mixed precision on for your model, on this machine, and double the batch: in minutes."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.advice.advising import advise, worth_a_study
from pipeline.advice.model_values import model_values
from pipeline.advice.proposal import ADVISED_POLICIES, find_description, propose, study_name, write_study
from pipeline.advice.schema import Advice, Row
from pipeline.comparison.vocabulary import OUTCOMES
from pipeline.comparison.wording import describe_ratio
from pipeline.errors import InputError
from pipeline.health.findings import Examination
from pipeline.machine.hardware import Hardware, this_machine
from pipeline.machine.image import installed_runtime
from pipeline.machine.terminal import print_table
from pipeline.numerics.ceiling import largest_batch
from pipeline.speed.measuring import measure_benchmark
from pipeline.speed.worker import message
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import Study, load_study
from stages import run
from stages.argument_types import mapping, positive
from stages.ceilings import fits

ADVICE = Path("advice")
ADVICE_COLUMNS = ("variant", "batch", "images/s", "speed of float32", "memory", "skipped", "largest\nbatch")


def main(arguments: argparse.Namespace) -> None:
    hardware = this_machine()
    known = load_study().datasets
    runtime = installed_runtime() or "cpu"
    model = model_values(arguments.model, arguments.source, arguments.arguments or {}, runtime)
    dataset = arguments.dataset if arguments.dataset in known else study_name(arguments.dataset)
    tfds = {"tfds": arguments.dataset}
    origin = known.get(dataset) or validate(DatasetSource, tfds, f"--dataset {arguments.dataset}")
    description = prepared(dataset, origin, in_study=dataset in known)
    started = time.monotonic()  # a first call downloads data, which is no measurement and takes none of its time
    proposal = partial(
        propose,
        model,
        dataset,
        origin,
        description,
        arguments.batch,
        runtime=runtime,
        image_size=arguments.image_size,
        margin_pp=arguments.margin_pp,
    )
    values = proposal(policies=ADVISED_POLICIES)
    (name,) = values["benchmarks"]
    folder = (arguments.out or ADVICE) / name
    write_study(values, folder / "params.yaml")
    study = load_study(folder / "params.yaml")
    print(f"{name} on {hardware.name}: {', '.join(ADVISED_POLICIES)} at batch {arguments.batch} and twice that")
    common = ["--study", str(folder / "params.yaml"), "--benchmark", name]
    _call("stages.examine", *common, "--out", str(folder / "health.jsonl"))
    lines = (folder / "health.jsonl").read_text(encoding="utf-8").splitlines()
    health = [Examination.model_validate_json(line) for line in lines]
    left_seconds = max(1.0, arguments.budget - (time.monotonic() - started))
    timed = study.model_copy(update={"speed": study.speed.model_copy(update={"budget_seconds": left_seconds})})
    side_by_side = hardware.kind == "cpu" or study.runtime == "cpu"
    say = partial(print, flush=True)
    measurement, speeds, _ = measure_benchmark(timed, name, side_by_side, say, folder / "params.yaml")
    if speeds.baseline not in speeds.variants:
        ended = OUTCOMES[speeds.outcomes[speeds.baseline]]
        smaller = speeds.outcomes[speeds.baseline] == "out_of_memory"
        remedy = "Try a smaller batch" if smaller else "Nothing can be compared with it: look at the model first"
        raise InputError(f"{speeds.baseline}, the baseline, {ended}. {remedy}.")
    largest = _largest_batches(study, folder, hardware)
    write_study(proposal(policies=worth_a_study(study, speeds)), folder / "params.yaml")
    proposed = load_study(folder / "params.yaml")
    advice = advise(study, proposed, measurement, speeds, health, hardware, largest)
    (folder / "advice.json").write_text(advice.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / "health.jsonl").unlink()
    _show(advice, proposed, folder, time.monotonic() - started)


def prepared(dataset: str, origin: DatasetSource, *, in_study: bool) -> dict[str, Any]:
    """Return `dataset.json` of data/`dataset`.

    Prepare the data again unless they are known to come from `origin` as it is now.

    DVC knows it of a data set of the study. A note under advice/ tells it of data that this function prepared.
    """
    note = ADVICE / f"{dataset}.prepared.json"
    source = origin.model_dump()
    noted = note.read_text(encoding="utf-8") if note.exists() else None
    found = find_description(dataset)
    if found and (noted == _note(source, found) or (in_study and _is_current(f"download@{dataset}"))):
        return found
    print(f"preparing {dataset}", flush=True)
    _call("stages.download", "--dataset", dataset, *(() if in_study else ("--tfds", origin.tfds)))
    found = find_description(dataset) or {}
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(_note(source, found), encoding="utf-8")
    return found


def _note(source: dict[str, Any], description: dict[str, Any]) -> str:
    return json.dumps({"source": source, "prepared": description}, indent=2) + "\n"


def _is_current(stage: str) -> bool:
    """Return whether DVC has run `stage` with today's code and parameters, and its output is as it left it."""
    return not subprocess.run([sys.executable, "-m", "dvc", "status", "-q", stage], capture_output=True).returncode


def _call(*command: str) -> None:
    """Run a stage in a process of its own, whose engine takes no memory from the others'."""
    done = subprocess.run(
        [sys.executable, "-m", *command], stderr=subprocess.PIPE, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise InputError(message(done.stderr))


def _largest_batches(study: Study, folder: Path, hardware: Hardware) -> dict[str, int | None]:
    """Return the largest batch by policy; nothing on a CPU, which has no memory of its own to fill."""
    if hardware.kind == "cpu" or study.runtime == "cpu":
        return {}
    ((name, benchmark),) = study.benchmarks.items()
    return {
        variant.policy: largest_batch(partial(fits, name, key, study=folder / "params.yaml"), benchmark.batch_size)
        for key, variant in study.variants.items()
        if variant.batch_multiplier == 1
    }


def _show(advice: Advice, proposed: Study, folder: Path, spent_seconds: float) -> None:
    print()
    for sentence in advice.verdict:
        print(sentence)
    print()
    print_table(ADVICE_COLUMNS, (_cells(row, row is advice.rows[0]) for row in advice.rows), num_names=1)
    print()
    for line in advice.watch:
        print(f"note: {line}")
    print(f"{spent_seconds:.0f} s. As data: {folder / 'advice.json'}")
    if all(variant.policy == "float32" for variant in proposed.variants.values()):
        return
    cost = "" if advice.study_seconds is None else f", about {advice.study_seconds / 3600:.1f} hours here"
    print(
        f"What answers the rest, {advice.num_seeds} seeds{cost}: cp {folder / 'params.yaml'} params.yaml && make repro"
    )


def _cells(row: Row, is_baseline: bool) -> Sequence[object]:
    memory = "unknown" if row.memory_ratio is None else f"{row.memory_ratio:.2f}×"
    speed = "1" if is_baseline else describe_ratio(row.speedup)
    rate = row.outcome if row.images_per_second is None else f"{row.images_per_second:,.0f}"
    largest = "unknown" if row.largest_batch is None else f"{row.largest_batch:,}"
    return row.variant, row.batch_size, rate, speed, memory, row.skipped_steps, largest


def _margin(text: str) -> float:
    if not 0 < float(text) < 100:
        raise argparse.ArgumentTypeError(f"must be percentage points between 0 and 100. Received: {text}")
    return float(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.advise", description=__doc__)
    parser.add_argument(
        "--model", required=True, help="dense, efficientnet, keras.applications:ResNet50V2, or my_package.models:build"
    )
    parser.add_argument(
        "--dataset", required=True, help="a data set of params.yaml, or any of TFDS with image and label"
    )
    parser.add_argument("--batch", type=positive, default=128, help="the batch size B you train with (128)")
    parser.add_argument(
        "--budget",
        type=positive,
        default=180,
        help="seconds to spend once the data are ready (180); two launches of every variant are made anyway",
    )
    parser.add_argument("--source", help="the file or folder of a model of your own; by default beside this project")
    parser.add_argument("--arguments", type=mapping, help="of the model, as in '{\"alpha\": 0.5}'")
    parser.add_argument("--image-size", type=positive, help="by default that of the data set")
    parser.add_argument("--margin-pp", type=_margin, default=1.0, help="what counts as the same accuracy (1)")
    parser.add_argument("--out", type=Path, help="folder of what is written (advice)")
    run(main, parser)
