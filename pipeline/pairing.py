"""Which runs may be compared: those that differ in nothing but what the study varies."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from pipeline.errors import InputError
from pipeline.records import RunRecord
from pipeline.study import RunKey, Study

MAX_NAMED = 6  # of a long list of runs


def check_comparable(study: Study, records: Mapping[RunKey, RunRecord]) -> None:
    """Returns if every run of the study is there and pairs with its partners.

    All runs must share campaign, engine, device and locked packages; those of a benchmark their data and the number of
    test examples; those of a benchmark and seed their initial weights.

    Raises:
        InputError: names every fault, two of the runs that differ, and how to make them anew.
    """
    missing = [key for key in study.runs() if key not in records]
    if missing:
        raise InputError(f"{_names(missing)} missing. Make the runs: dvc repro {_stages(missing)}")
    chosen = [records[key] for key in study.runs()]
    faults = []
    for what, value in (
        ("campaign", lambda record: record.campaign),
        ("engine", lambda record: record.engine),
        ("device", lambda record: device(record.environment)),
        ("locked packages", lambda record: _short(record.environment["lock_sha256"])),
    ):
        faults += _differences(what, ((None, record.key, value(record)) for record in chosen))
    faults += _differences("data", ((record.benchmark, record.key, _short(record.data_sha256)) for record in chosen))
    faults += _differences(
        "initial weights",
        (((record.benchmark, record.seed), record.key, _short(record.initial_weights_sha256)) for record in chosen),
    )
    if faults:
        raise InputError("\n".join(faults))


def device(environment: Mapping[str, Any]) -> str:
    """The device a run trained on, in words: its accelerators, or its CPU and the number of cores."""
    accelerators = [accelerator["name"] for accelerator in environment["accelerators"]]
    return ", ".join(accelerators) or f"{environment['cpu'] or environment['machine']}, {environment['num_cpus']} cores"


def _differences(what: str, runs: Iterable[tuple[Hashable, RunKey, str]]) -> list[str]:
    """A fault for each group of runs that do not all have one value; a triple is (group, run, value)."""
    groups: dict[Hashable, dict[str, list[RunKey]]] = defaultdict(lambda: defaultdict(list))
    for group, key, value in runs:
        groups[group][value].append(key)
    return [_fault(what, by_value) for by_value in groups.values() if len(by_value) > 1]


def _fault(what: str, by_value: Mapping[str, Sequence[RunKey]]) -> str:
    """The remedy is to repeat the runs that are in the minority; where there is none, all."""
    (value, most), (other_value, fewer), *_ = sorted(by_value.items(), key=lambda item: -len(item[1]))
    odd = [key for other in by_value if other != value for key in by_value[other]]
    again = odd if len(fewer) < len(most) else [*most, *odd]
    return (
        f"{most[0].directory} and {fewer[0].directory} can't be compared: they differ in {what} "
        f"({value}; {other_value}). Make the odd ones again here: dvc repro --force --single-item {_stages(again)}"
    )


def _short(digest: str | None) -> str:
    return (digest or "unknown")[:12]


def _names(keys: Sequence[RunKey]) -> str:
    more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
    return ", ".join(str(key.directory) for key in keys[:MAX_NAMED]) + more + (" is" if len(keys) == 1 else " are")


def _stages(keys: Sequence[RunKey]) -> str:
    return " ".join(key.stage for key in keys)
