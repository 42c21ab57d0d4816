"""Sittings: measurements of speed on different days, which say how far another day's ratio may be from today's.

`sittings.csv` has a row for each sitting and each pair that was compared in it. It lies beside `params.yaml`, also in a
study's archive.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, Field, NonNegativeFloat, PositiveInt

from pipeline.comparison.comparable import device, pairs_of
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, read_rows
from pipeline.files.writing import csv_text
from pipeline.records.blocks import Circumstances
from pipeline.records.schema import Part
from pipeline.statistics.sittings import OF_ITSELF, Sittings, SittingSpread, pooled_spread, spread_of
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import Study

SITTINGS = Path("sittings.csv")
APART = timedelta(hours=1)  # the beginnings of two sittings


class SittingRow(Part):
    """What a sitting found of one pair.

    `log_ratio` is the logarithm of the speedup, `standard_error` its error by the launches of this sitting, with
    `degrees_of_freedom`. `timed_as` digests the recipe and both variants: only pairs that agree in it are one contrast.
    """

    measured_at: AwareDatetime
    git_commit: Annotated[str, Field(max_length=40)]
    device: str
    benchmark: str
    baseline: str
    candidate: str
    timed_as: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    num_launches: PositiveInt
    log_ratio: Annotated[float, Field(ge=-20, le=20)]
    standard_error: NonNegativeFloat
    degrees_of_freedom: PositiveInt


def read_sittings(root: Path = Path()) -> list[SittingRow]:
    """Return the sittings under `root`; none where there is no file of them. Raise `InputError` where it is damaged."""
    path = root / SITTINGS
    return (
        read_rows(SittingRow, path, Remedy(*["Get it again: git checkout sittings.csv"] * 2)) if path.exists() else []
    )


def write_sittings(rows: Iterable[SittingRow], root: Path = Path()) -> None:
    text = csv_text(list(SittingRow.model_fields), (row.model_dump(mode="json") for row in rows))
    (root / SITTINGS).write_text(text, encoding="utf-8")


def rows_of(
    study: Study, benchmark: str, speeds: Speeds, circumstances: Circumstances, measured_at: datetime
) -> Iterator[SittingRow]:
    """Yield what a sitting found of each pair on `benchmark`, where its launches give an error."""
    for baseline, candidate in timed_pairs(study, benchmark):
        found = speeds.log_speedup(baseline, candidate)
        if found and found.error:
            yield SittingRow(
                measured_at=measured_at,
                git_commit=circumstances.environment.get("git_commit") or "unknown",
                device=device(circumstances.environment),
                benchmark=benchmark,
                baseline=baseline,
                candidate=candidate,
                timed_as=timed_as(study, benchmark, baseline, candidate),
                num_launches=found.num_launches,
                log_ratio=found.mean,
                standard_error=found.error,
                degrees_of_freedom=found.degrees_of_freedom,
            )


def timed_pairs(study: Study, benchmark: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of variants that take turns of their own, so that no contrast stands twice."""
    measured = study.measured_as(benchmark)
    for baseline, candidate in pairs_of(study, benchmark):
        if (measured[baseline], measured[candidate]) == (baseline, candidate):
            yield baseline, candidate


def check_apart(rows: Sequence[SittingRow], new: SittingRow) -> None:
    """Raise `InputError` where a sitting on the same device is less than `APART` from a new one."""
    for row in rows:
        if row.device == new.device and abs(row.measured_at - new.measured_at) < APART:
            raise InputError(
                f"{SITTINGS}: {row.measured_at:%Y-%m-%d %H:%M} and {new.measured_at:%Y-%m-%d %H:%M} are one sitting. "
                "Sittings are an hour or more apart: measure again later."
            )


def contrasts(rows: Iterable[SittingRow]) -> dict[tuple[str, str], Sittings]:
    """Return what the sittings found of each contrast, by device and `timed_as`."""
    found: dict[tuple[str, str], Sittings] = defaultdict(lambda: Sittings([], []))
    for row in rows:
        found[row.device, row.timed_as].log_ratios.append(row.log_ratio)
        found[row.device, row.timed_as].errors.append(row.standard_error)
    return found


def spread_between(
    rows: Iterable[SittingRow], study: Study, benchmark: str, baseline: str, candidate: str, where: str
) -> SittingSpread:
    """Return how far the speedup of a pair varies from sitting to sitting on the device `where`."""
    measured, found = study.measured_as(benchmark), contrasts(rows)
    if measured[baseline] == measured[candidate]:
        return OF_ITSELF
    sittings = found[where, timed_as(study, benchmark, baseline, candidate)]
    return spread_of(sittings, pooled_spread(list(found.values())))


def timed_as(study: Study, benchmark: str, baseline: str, candidate: str) -> str:
    """Digest all of a study that decides how fast a pair trains on a device, to twelve hexadecimal digits."""
    measured = study.measured_as(benchmark)
    said = study.model_dump(mode="json", include={"engine", "runtime", "devices"})
    said["recipe"] = study.benchmarks[benchmark].model_dump(mode="json", exclude_defaults=True)
    said["pair"] = [
        study.variants[measured[name]].model_dump(mode="json", exclude={"benchmarks"}, exclude_defaults=True)
        for name in (baseline, candidate)
    ]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
