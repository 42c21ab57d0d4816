"""Read the files of finished runs and speed measurements, and check that the files agree.

Also check that the runs can be compared: they may differ only in settings that the study varies.
"""

import io
import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.errors import InputError
from pipeline.files import untrusted
from pipeline.files.places import SPEED
from pipeline.files.untrusted import damaged, read_zip
from pipeline.machine.hardware import device_name
from pipeline.records.blocks import REPEAT, Circumstances, PlacedBlock
from pipeline.records.run_record import EpochRecord, RunRecord, planned
from pipeline.statistics.speeds import Speeds, speeds_of
from pipeline.study.schema import RunKey, Study


class Run(NamedTuple):
    """Hold the record, the epochs and the predicted classes of a finished run.

    `predicted` is integer (num_test_examples,), or empty if the run did not complete.
    """

    record: RunRecord
    epochs: Sequence[EpochRecord]
    predicted: np.ndarray


def read_runs(study: Study, root: Path = Path(), without: Collection[RunKey] = ()) -> dict[RunKey, Run]:
    """Return the finished runs of the study under `root`, except those in `without`.

    Raises:
        InputError: a file of a run is missing or damaged, or contradicts another file.
    """
    labels: dict[str, np.ndarray] = {}
    found = {}
    for key in study.runs():
        if key not in without and (root / key.directory).exists():
            record = read_record(key, root)
            found[key] = Run(record, read_epochs(record, root), read_predictions(record, root, labels))
    return found


def read_record(key: RunKey, root: Path = Path()) -> RunRecord:
    """Return the record of a finished run.

    Raises:
        InputError: the record is missing, damaged, or that of another run. The message says how to make the run again.
    """
    path = root / key.directory / "record.json"
    record = untrusted.read_json(RunRecord, path, _remedy(key))
    if record.key != key:
        raise damaged(path, f"it is the record of {record.key.directory}", _remedy(key))
    return record


def read_epochs(record: RunRecord, root: Path = Path()) -> list[EpochRecord]:
    """Return the epochs of a finished run, in order.

    Raises:
        InputError: the epochs can't be read or contradict the record. The message says how to make the run again.
    """
    path = root / record.key.directory / "epochs.csv"
    epochs = untrusted.read_rows(EpochRecord, path, _remedy(record.key))
    if [epoch.epoch for epoch in epochs] != list(range(1, record.num_epochs + 1)):
        raise damaged(path, f"it must have epochs 1 to {record.num_epochs}", _remedy(record.key))
    return epochs


def read_predictions(
    record: RunRecord, root: Path = Path(), labels_by_benchmark: dict[str, np.ndarray] | None = None
) -> np.ndarray:
    """Return the classes that a finished run predicts, integer (num_test_examples,).

    The array is empty if the run did not complete.

    Args:
        labels_by_benchmark: the labels by benchmark, from runs that were read earlier. The labels of a new benchmark
            are added to the dictionary.

    Raises:
        InputError: the predictions can't be read or contradict the record's accuracy, or the labels differ from those
            of the benchmark's other runs. The message says how to make the run again.
    """
    path, remedy = root / record.key.directory / "predictions.npz", _remedy(record.key)
    arrays = _read_integers(path, ("labels", "predicted"), remedy)
    labels, predicted = arrays["labels"], arrays["predicted"]
    known = labels if labels_by_benchmark is None else labels_by_benchmark.setdefault(record.benchmark, labels)
    for contradiction in _contradictions_of_predictions(record, labels, predicted, known):
        raise damaged(path, contradiction, remedy)
    return predicted


def _read_integers(path: Path, names: tuple[str, ...], remedy: str) -> dict[str, np.ndarray]:
    """Return the arrays `names` of an npz file, each integer (N,). Raise `InputError` if the file has another form."""
    contents = read_zip(path, remedy)
    if contents.keys() != {f"{name}.npy" for name in names}:
        raise damaged(path, f"it must hold exactly {' and '.join(names)}", remedy)
    try:
        arrays = {
            name: np.lib.format.read_array(io.BytesIO(contents[f"{name}.npy"]), allow_pickle=False) for name in names
        }
    except Exception as error:  # NumPy raises many kinds of errors for bytes that are not an array
        raise damaged(path, error, remedy) from None
    if any(array.dtype.kind not in "iu" or array.ndim != 1 for array in arrays.values()):
        raise damaged(path, "it must hold one-dimensional arrays of integers", remedy)
    return arrays


def _contradictions_of_predictions(
    record: RunRecord, labels: np.ndarray, predicted: np.ndarray, known: np.ndarray
) -> Iterator[str]:
    """Yield each contradiction between a run's predictions and its record or the benchmark's `known` labels."""
    num_examples, accuracy = record.num_test_examples, record.scores.test_accuracy
    if (len(labels), len(predicted)) != (num_examples, num_examples if record.outcome == "completed" else 0):
        found = f"it has {len(labels)} labels and {len(predicted)} predictions"
        yield f"{found}, but the record has {num_examples} test examples and the outcome {record.outcome}"
    if not np.array_equal(labels, known):
        yield f"its labels differ from those of other runs of {record.benchmark}"
    if accuracy is not None and not (len(labels) and math.isclose((labels == predicted).mean(), accuracy)):
        yield f"its accuracy differs from the {accuracy} of the record"


def _remedy(key: RunKey) -> str:
    return f"Make the run: dvc repro train@{key.benchmark}"


def read_speeds(study: Study, benchmark: str, root: Path = Path()) -> Speeds:
    """Return the speeds of the variants of `benchmark`.

    Raises:
        InputError: `blocks.csv` is missing or damaged, or does not fit the study. The message says how to measure
            again.
    """
    path, remedy = root / SPEED / benchmark / "blocks.csv", remedy_of_speed(benchmark)
    blocks = untrusted.read_rows(PlacedBlock, path, remedy, may_lack={"kernel_seconds"})
    for contradiction in _contradictions_of_blocks(study, benchmark, blocks):
        raise damaged(path, contradiction, remedy)
    return speeds_of(study, benchmark, blocks)


def read_circumstances(benchmark: str, root: Path = Path()) -> Circumstances:
    """Return the circumstances in which the speed of `benchmark` was measured.

    Raises:
        InputError: `measurement.json` is missing or damaged. The message says how to measure again.
    """
    path = root / SPEED / benchmark / "measurement.json"
    return untrusted.read_json(Circumstances, path, remedy_of_speed(benchmark))


def _contradictions_of_blocks(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> Iterator[str]:
    """Yield each contradiction between the blocks and the study, or among the blocks."""
    recipe, baseline = study.benchmarks[benchmark], study.comparison.baseline
    timed = study.measured_as(benchmark).values()
    multipliers = {name: study.variants[name].batch_multiplier for name in timed}
    multipliers[REPEAT] = multipliers[baseline]
    if odd := {block.variant for block in blocks} - multipliers.keys():
        yield f"its variants are not {', '.join(multipliers)} but {', '.join(sorted(odd))}"
        return
    if sorted({block.launch for block in blocks}) != list(range(1, 1 + len({block.launch for block in blocks}))):
        yield "its launches are not numbered from 1"
    if len({(block.launch, block.turn, block.variant) for block in blocks}) < len(blocks):
        yield "it contains a block twice"
    for block in blocks:
        name = f"launch {block.launch}, turn {block.turn}, {block.variant}"
        if block.num_images != block.num_steps * recipe.batch_size * multipliers[block.variant]:
            yield f"{name}: {block.num_images} images do not match {block.num_steps} steps"


def remedy_of_speed(benchmark: str) -> str:
    return f"Measure it: dvc repro speed@{benchmark}"


def check_comparable(study: Study, records: Mapping[RunKey, RunRecord]) -> None:
    """Check that every finished run was made as the study says, and can be compared with the others.

    All runs must share the engine, the packages, the container image and the kind of memory measured. Runs of one seed
    must share the device, the driver and the environment variables. Runs of one benchmark must share the data. Runs of
    one benchmark with the same seed must also share the initial weights.

    Raises:
        InputError: a run departs from the study, or runs can't be compared. For each fault, the message names the runs
            and the remedy.
    """
    chosen = [records[key] for key in study.runs() if key in records]
    faults = [fault for record in chosen for fault in _departures(study, record)]
    alike: dict[tuple[str, Hashable], dict[str, list[RunKey]]] = defaultdict(lambda: defaultdict(list))
    for record in chosen:
        for what, among, value in _shared(record):
            alike[what, among][value].append(record.key)
    faults += [_fault(what, by_value) for (what, _), by_value in alike.items() if len(by_value) > 1]
    if faults:
        raise InputError("\n".join(faults))


def _shared(record: RunRecord) -> Iterator[tuple[str, Hashable, str]]:
    """Yield each property that a run must share with other runs: its name, a key of these runs, and its value in words.

    The key is None if all runs must share the property. Otherwise, runs with the same key must share the property.
    """
    for what, value in surroundings(record.environment).items():
        yield what, record.seed if what in ("device", "driver", "environment variables") else None, value
    yield "kind of memory", None, record.memory.peak_kind or "unknown"
    yield "data", record.benchmark, _short(record.data_sha256)
    if record.initial_weights_sha256:  # a run may end before it has weights
        yield "initial weights", (record.benchmark, record.seed), _short(record.initial_weights_sha256)


def surroundings(environment: Mapping[str, Any]) -> dict[str, str]:
    """Describe the device and the software of a run in words, by property.

    `check_comparable` says which runs must agree in these properties.
    """
    return {
        "device": device_name(environment),
        "driver": environment.get("driver") or "none",
        "engine": environment["runtime"],
        "environment variables": " ".join(f"{name}={value}" for name, value in environment.get("variables", {}).items())
        or "none",
        "packages": " ".join(f"{name} {version}" for name, version in sorted(environment["packages"].items())),
        "container image": _image(environment.get("image")),
    }


def device_in_words(environment: Mapping[str, Any]) -> str:
    """Return the name from `device_name`, with a note if the device is a CPU without 16-bit features."""
    features = environment.get("cpu_features")
    has_none = features is not None and not any("16" in each for each in features)
    return device_name(environment) + ", no 16-bit features" * (has_none and not environment.get("accelerators"))


def _departures(study: Study, record: RunRecord) -> list[str]:
    """Return a message for each setting of a run that differs from the study's plan."""
    found, wanted = record.planned.model_dump(), planned(study, record.key).model_dump()
    if record.outcome == "too_slow":  # the limit affects only the runs that it stopped
        found["max_run_seconds"], wanted["max_run_seconds"] = record.times.max_run_seconds, study.max_run_seconds
    return [
        f"{record.key.directory} has {setting} {_words(found[setting])}, the study says {_words(value)}. "
        f"Make it again: dvc repro train@{record.key.benchmark}"
        for setting, value in wanted.items()
        if found[setting] != value
    ]


def _words(value: Any) -> str:
    return ", ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, dict) else str(value)


def _fault(what: str, by_value: Mapping[str, Sequence[RunKey]]) -> str:
    (value, most), (other_value, fewer), *_ = sorted(by_value.items(), key=lambda item: -len(item[1]))
    return (
        f"{most[0].directory} and {fewer[0].directory} can't be compared: they differ in {what} "
        f"({value}; {other_value}). To make every run again, give the study a new `campaign` in params.yaml"
    )


def _image(image: Mapping[str, Any] | None) -> str:
    """Describe a container image by the parts that can change results; return "none" if there is no image."""
    return f"{image['target']} {_short(image['content_sha256'])} on {image['base']}" if image else "none"


def _short(digest: str | None) -> str:
    return (digest or "unknown")[:12]
