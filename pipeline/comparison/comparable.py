"""Check that runs differ only in what the study varies, so that they can be compared."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.errors import InputError
from pipeline.machine.hardware import device_name
from pipeline.records.run_record import RunRecord, planned
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import DEFAULT_POLICY


def check_comparable(study: Study, records: Mapping[RunKey, RunRecord]) -> None:
    """Check that every finished run was made as the study says, and can be compared with the others.

    All runs must share the engine, its packages, the container image and the kind of memory measured. Runs of one seed
    must share the device, its driver and the environment variables; other seeds may run elsewhere. Runs of one
    benchmark must share the data, and those with the same seed must also share the initial weights.

    Raises:
        InputError: the message names every fault, its runs, and how to make them again.
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
    """Yield each property that a run must share, the group that must share it, and the run's value in words."""
    for what, value in surroundings(record.environment).items():
        yield what, record.seed if what in ("device", "driver", "environment variables") else None, value
    yield "kind of memory", None, record.memory.peak_kind or "unknown"
    yield "data", record.benchmark, _short(record.data_sha256)
    if record.initial_weights_sha256:  # a run may end before it has any
        yield "initial weights", (record.benchmark, record.seed), _short(record.initial_weights_sha256)


def pairs_of(study: Study, benchmark: str) -> list[tuple[str, str]]:
    """Return (baseline, candidate) for every pair on `benchmark`.

    Pairs with the study's baseline come first. Next come pairs with TF32, the default of a GPU that has it, and then
    the study's further pairs.
    """
    settings, variants = study.comparison, study.variants_of(benchmark)
    pairs = [(settings.baseline, name) for name in variants if name != settings.baseline]
    if default := study.plain(benchmark, DEFAULT_POLICY):
        pairs += [(default, name) for name in variants if name not in (settings.baseline, default)]
    pairs += [(pair.baseline, pair.candidate) for pair in settings.further_pairs]
    return [pair for pair in dict.fromkeys(pairs) if variants.keys() >= set(pair)]


def surroundings(environment: Mapping[str, Any]) -> dict[str, str]:
    """Describe in words where a run was made, by property. Comparable runs must agree on these properties."""
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
    """Name the device as `device_name` does. If it is a CPU without 16-bit features, say so."""
    features = environment.get("cpu_features")
    has_none = features is not None and not any("16" in each for each in features)
    return device_name(environment) + ", no 16-bit features" * (has_none and not environment.get("accelerators"))


def _departures(study: Study, record: RunRecord) -> list[str]:
    """Return a message for each setting of a run that differs from the study's plan."""
    found, wanted = record.planned.model_dump(), planned(study, record.key).model_dump()
    if record.outcome == "too_slow":  # only a run that was stopped depends on the limit
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
    """Describe the parts of an image that can change results."""
    return f"{image['target']} {_short(image['content_sha256'])} on {image['base']}" if image else "none"


def _short(digest: str | None) -> str:
    return (digest or "unknown")[:12]
