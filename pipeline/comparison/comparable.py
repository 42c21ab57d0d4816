"""Check which runs may be compared: those that differ in nothing but what the study varies."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from pipeline.errors import InputError
from pipeline.records.planned import planned
from pipeline.records.schema import RunRecord
from pipeline.study.schema import RunKey, Study

MAX_NAMED = 6  # of a long list of runs


def check_comparable(study: Study, records: Mapping[RunKey, RunRecord]) -> None:
    """Check that every run of the study is there, was made as the study says, and pairs with its partners.

    All runs must share device, locked packages and container image; those of a benchmark their data; those of a
    benchmark and seed their initial weights.

    Raises:
        InputError: names every fault, the runs, and how to make them again.
    """
    missing = [key for key in study.runs() if key not in records]
    if missing:
        raise InputError(f"{_names(missing)} missing. Make the runs: dvc repro {_stages(missing)}")
    chosen = [records[key] for key in study.runs()]
    faults = [fault for record in chosen for fault in _departures(study, record)]
    of_each = [surroundings(record.environment) for record in chosen]
    for what in of_each[0]:
        values = [found[what] for found in of_each]
        faults += _differences(what, ((None, record.key, v) for record, v in zip(chosen, values, strict=True)))
    kinds = ((None, record.key, record.memory.peak_kind or "unknown") for record in chosen)
    faults += _differences("kind of memory", kinds)
    faults += _differences("data", ((record.benchmark, record.key, _short(record.data_sha256)) for record in chosen))
    faults += _differences(
        "initial weights",
        (
            ((record.benchmark, record.seed), record.key, _short(record.initial_weights_sha256))
            for record in chosen
            if record.initial_weights_sha256  # a run may have ended before it had any
        ),
    )
    if faults:
        raise InputError("\n".join(faults))


def check_candidates(study: Study) -> None:
    """Raise `InputError` where no benchmark has two variants."""
    if all(len(study.variants_of(name)) < 2 for name in study.benchmarks):
        raise InputError("params.yaml: variants: no benchmark has two, so there is nothing to compare.")


def pairs_of(study: Study, benchmark: str) -> list[tuple[str, str]]:
    """Return baseline and candidate of every pair on `benchmark`: the study's baseline first, then further pairs."""
    settings, variants = study.comparison, study.variants_of(benchmark)
    pairs = [(settings.baseline, name) for name in variants if name != settings.baseline]
    pairs += [(pair.baseline, pair.candidate) for pair in settings.further_pairs]
    return [pair for pair in pairs if variants.keys() >= set(pair)]


def surroundings(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return, in words, in what runs must agree of where they were made."""
    return {
        "device": device(environment),
        "driver": environment.get("driver") or "none",
        "locked packages": _short(environment.get("lock_sha256")),
        "container image": _image(environment.get("image")),
    }


def device(environment: Mapping[str, Any]) -> str:
    """Return the device a run trained on, in words: its accelerators, or its CPU and the number of cores."""
    accelerators = [accelerator["name"] for accelerator in environment.get("accelerators", [])]
    cpu = environment.get("cpu") or environment.get("machine") or "unknown CPU"
    return ", ".join(accelerators) or f"{cpu}, {environment.get('num_cpus', 'unknown')} cores"


def _departures(study: Study, record: RunRecord) -> list[str]:
    """Name what of a run is not as the study plans it."""
    found, wanted = record.planned.model_dump(), planned(study, record.key).model_dump()
    if record.outcome == "too_slow":  # any other run would have ended alike under any limit that it keeps
        found["max_run_seconds"], wanted["max_run_seconds"] = record.times.max_run_seconds, study.max_run_seconds
    return [
        f"{record.key.directory} has {setting} {_words(found[setting])}, the study says {_words(value)}. "
        f"Make it again: dvc repro --force --single-item {record.key.stage}"
        for setting, value in wanted.items()
        if found[setting] != value
    ]


def _words(value: Any) -> str:
    return ", ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, dict) else str(value)


def _differences(what: str, runs: Iterable[tuple[Hashable, RunKey, str]]) -> list[str]:
    """Return a fault for each group of runs that do not all have one value; a triple is (group, run, value)."""
    groups: dict[Hashable, dict[str, list[RunKey]]] = defaultdict(lambda: defaultdict(list))
    for group, key, value in runs:
        groups[group][value].append(key)
    return [_fault(what, by_value) for by_value in groups.values() if len(by_value) > 1]


def _fault(what: str, by_value: Mapping[str, Sequence[RunKey]]) -> str:
    (value, most), (other_value, fewer), *_ = sorted(by_value.items(), key=lambda item: -len(item[1]))
    odd = [key for other in by_value if other != value for key in by_value[other]]
    return (
        f"{most[0].directory} and {fewer[0].directory} can't be compared: they differ in {what} "
        f"({value}; {other_value}). If the code and the machine here are those of the former, make the others again: "
        f"dvc repro --force --single-item {_stages(odd)}; if not, all: dvc repro --force --single-item train"
    )


def _image(image: Mapping[str, Any] | None) -> str:
    """Describe that part of an image which can change results."""
    return f"{image['target']} {_short(image['content_sha256'])} on {image['base']}" if image else "none"


def _short(digest: str | None) -> str:
    return (digest or "unknown")[:12]


def _names(keys: Sequence[RunKey]) -> str:
    more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
    return ", ".join(str(key.directory) for key in keys[:MAX_NAMED]) + more + (" is" if len(keys) == 1 else " are")


def _stages(keys: Sequence[RunKey]) -> str:
    return " ".join(key.stage for key in keys)
