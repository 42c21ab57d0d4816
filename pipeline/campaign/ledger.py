"""Keep the ledger: a folder with one file per campaign, and a file that names the baseline campaigns of each series.

The file of a campaign never changes. A series consists of the campaigns with the same device, driver, packages,
container image and study. A campaign is compared only with campaigns of its series.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from pipeline.comparison.finished_runs import surroundings
from pipeline.errors import InputError
from pipeline.files.untrusted import Untrusted, read_json
from pipeline.files.writing import write_whole
from pipeline.machine.hardware import device_name
from pipeline.records.run_record import RunRecord
from pipeline.statistics.circumstances import is_busy, other_cpu_share
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import RunKey, Study

BASELINE = "baseline.json"


class CampaignRun(Untrusted):
    """Hold one run of a campaign. `test_accuracy` is in [0, 1]. Old ledger files have no `num_test_examples`."""

    benchmark: str
    variant: str
    seed: int
    outcome: str
    test_accuracy: float | None
    num_test_examples: PositiveInt | None = None


class CampaignLaunch(Untrusted):
    """Hold the speeds of a benchmark's variants in one launch of processes, which train in turns.

    `epoch_seconds` is the baseline's time for the training images of an epoch, as the median over turns. `slowdowns`
    holds, by variant, the variant's time divided by the baseline's time, as the median over turns. The first variant is
    the baseline, with a slowdown of 1.
    """

    benchmark: str
    launch: int
    epoch_seconds: PositiveFloat
    slowdowns: dict[str, PositiveFloat]


class CampaignEntry(Untrusted):
    """Hold a campaign's entry in the ledger: device and software (`made_on`), finished runs, and launches with speeds.

    `num_planned` is the number of runs that the study plans.
    """

    schema_version: Literal[3] = 3
    campaign: str
    profile: str
    started_at: str
    made_on: dict[str, str]
    num_planned: int
    runs: list[CampaignRun]
    launches: list[CampaignLaunch]

    @property
    def series(self) -> str:
        """Return the series as twelve hexadecimal digits, a digest of `profile` and `made_on`."""
        text = json.dumps({"profile": self.profile} | self.made_on, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def seeds(self) -> set[int]:
        return {run.seed for run in self.runs}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the (benchmark, variant) pairs of the runs, each pair once."""
        return list(dict.fromkeys((run.benchmark, run.variant) for run in self.runs))

    @property
    def benchmarks(self) -> list[str]:
        return list(dict.fromkeys(benchmark for benchmark, _ in self.pairs))

    def runs_of(self, benchmark: str, variant: str) -> list[CampaignRun]:
        return [run for run in self.runs if (run.benchmark, run.variant) == (benchmark, variant)]

    def accuracies(self, benchmark: str, variant: str) -> list[float]:
        """Return the test accuracies of the completed runs, in percent."""
        return [100 * run.test_accuracy for run in self.runs_of(benchmark, variant) if run.test_accuracy is not None]

    def resolution(self, benchmark: str, variant: str) -> float:
        """Return the percentage points by which one test example changes the accuracy, or 0 if unknown."""
        numbers = [run.num_test_examples for run in self.runs_of(benchmark, variant) if run.num_test_examples]
        return 100 / min(numbers) if numbers else 0.0

    def launches_of(self, benchmark: str) -> list[CampaignLaunch]:
        return [launch for launch in self.launches if launch.benchmark == benchmark]

    def training_times(self, benchmark: str) -> list[float]:
        """Return the natural logarithms of the baseline's `epoch_seconds`, one per launch."""
        return [math.log(launch.epoch_seconds) for launch in self.launches_of(benchmark)]

    def timed_variants(self, benchmark: str) -> list[str]:
        """Return the variants that every launch of `benchmark` has timed, the baseline first."""
        measured = [list(launch.slowdowns) for launch in self.launches_of(benchmark)]
        return [name for name in (measured or [[]])[0] if all(name in names for names in measured)]

    def launch_effects(self, benchmark: str, variants: Sequence[str]) -> np.ndarray:
        """Return the natural logarithms of the variants' slowdowns, float64 (num_launches, num_variants)."""
        return np.log([[launch.slowdowns[name] for name in variants] for launch in self.launches_of(benchmark)])


def entry(study: Study, records: Mapping[RunKey, RunRecord], speeds: Mapping[str, Speeds]) -> CampaignEntry:
    """Return the ledger entry of a campaign.

    Args:
        records: the finished runs, at least one, which `check_comparable` has accepted.
        speeds: the speeds by benchmark. A benchmark's launches are left out if other work took too much CPU time
            (`is_busy`). A launch is also left out if a variant and the baseline have no turn in common.

    Raises:
        InputError: the runs were made on several devices or with several drivers, so the campaign belongs to no series.
    """
    environment = next(iter(records.values())).environment
    for what in ("device", "driver"):
        devices = sorted({surroundings(record.environment)[what] for record in records.values()})
        if len(devices) > 1:
            raise InputError(
                f"All runs of a campaign must share one {what}. These were made on {' and on '.join(devices)}. "
                "Run the campaign again on nodes of one kind, under a new name."
            )
    return CampaignEntry(
        campaign=study.campaign,
        profile=study.name,
        started_at=min(record.started_at for record in records.values()),
        made_on=_made_on(study, environment),
        num_planned=len(study.runs()),
        runs=[
            CampaignRun(
                **key._asdict(),
                outcome=record.outcome,
                test_accuracy=record.scores.test_accuracy,
                num_test_examples=record.num_test_examples or None,
            )
            for key, record in records.items()
        ],
        launches=[
            CampaignLaunch(
                benchmark=benchmark,
                launch=number,
                epoch_seconds=seconds,
                slowdowns={name: math.exp(effect) for name, effect in zip(speeds_of.variants, effects, strict=True)},
            )
            for benchmark, speeds_of in speeds.items()
            if speeds_of.variants and not is_busy(other_cpu_share(speeds_of.blocks))
            for number, (seconds, effects) in enumerate(
                zip(speeds_of.baseline_seconds, speeds_of.training_effects, strict=True), 1
            )
            if np.isfinite(effects).all()
        ],
    )


def _made_on(study: Study, environment: Mapping[str, Any]) -> dict[str, str]:
    image = environment.get("image") or {}
    return {
        "device": device_name(environment),
        "driver": environment.get("driver") or "none",
        "packages": environment.get("lock_sha256") or "unknown",
        "image": image.get("content_sha256") or "none",
        "study": study.digest_of(Study.model_fields.keys() - {"campaign", "seeds", "description", "deviations"}),
    }


def append(new: CampaignEntry, ledger: Path) -> Path:
    """Write an entry to the folder `ledger`, and return the path of the file.

    If the ledger has the same entry already, only return the path.

    Raises:
        InputError: the ledger has a different or a damaged entry of that name.
    """
    path = ledger / f"{new.campaign}.json"
    if path.exists():
        if _read(path) != new:
            raise InputError(f"{path} already holds a different campaign. Give this campaign a new name with CAMPAIGN=")
        return path
    ledger.mkdir(parents=True, exist_ok=True)
    write_whole(path, new.model_dump_json(indent=2) + "\n")
    return path


def read_ledger(ledger: Path) -> list[CampaignEntry]:
    """Return the entries of all campaigns, oldest first. If a file is damaged, raise an `InputError` with its name."""
    paths = [path for path in ledger.glob("*.json") if path.name != BASELINE]
    return sorted((_read(path) for path in paths), key=lambda found: (found.started_at, found.campaign))


def read_baseline(series: str, ledger: Path) -> list[CampaignEntry]:
    """Return the campaigns that `baseline.json` names as the baseline of a series, or an empty list.

    Raises:
        InputError: `baseline.json` is damaged, or the file of a campaign that it names is missing or damaged.
    """
    return [_read(ledger / f"{name}.json") for name in _pinned(ledger).get(series, [])]


def _pinned(ledger: Path) -> dict[str, list[str]]:
    """Return the names of the baseline campaigns, by series."""
    path = ledger / BASELINE
    remedy = "It must give a list of campaigns by series. Delete it, and pin the baseline again: stages.pin"
    return read_json(dict[str, list[str]], path, remedy) if path.exists() else {}


def pin(campaigns: Sequence[str], ledger: Path) -> str:
    """Make these campaigns the baseline of their series in place of any earlier one, and return the series.

    Raises:
        InputError: a campaign is not in the ledger; the campaigns belong to several series; or a file is damaged.
    """
    series = {_read(ledger / f"{name}.json").series for name in campaigns}
    if len(series) != 1:
        raise InputError(f"{', '.join(campaigns)} belong to {len(series)} series, so they can't form one baseline")
    (found,) = series
    pinned = _pinned(ledger) | {found: list(campaigns)}
    write_whole(ledger / BASELINE, json.dumps(pinned, indent=2, sort_keys=True) + "\n")
    return found


def _read(path: Path) -> CampaignEntry:
    return read_json(CampaignEntry, path, f"To enter the campaign in the ledger: make campaign CAMPAIGN={path.stem}")
