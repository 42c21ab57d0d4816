"""The ledger of campaigns: one small file each, never changed once written, and which of them are the baseline.

Different campaigns have different files, so branches merge. A campaign is compared with those of its series alone: the
same device, driver, packages, image, engine and study.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, ValidationError

from pipeline.comparison.pairing import device
from pipeline.errors import InputError
from pipeline.files.writing import write_whole
from pipeline.records.schema import RunRecord
from pipeline.speed.estimates import Speeds
from pipeline.study.schema import RunKey, Study

LEDGER = Path("history")
BASELINE = "baseline.json"
SCHEMA_VERSION: Literal[2] = 2


class CampaignRun(BaseModel):
    """One run of a campaign. Accuracy in [0, 1]."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    variant: str
    seed: int
    outcome: str
    test_accuracy: float | None


class CampaignLaunch(BaseModel):
    """The speeds of a benchmark's variants in one launch of processes.

    `epoch_seconds` is what the baseline takes for the training images of an epoch, in the median over turns, and
    `slowdowns` by how much longer each variant takes in the same turns: the baseline itself 1. Variants too slow for
    a block in every other turn are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    benchmark: str
    launch: int
    epoch_seconds: PositiveFloat
    slowdowns: dict[str, PositiveFloat]


class CampaignEntry(BaseModel):
    """A campaign: what it was made on, each run that finished, of `num_planned`, and the launches that measured speed.

    `made_for` is the class of machine the study asks for, which is known before anything is run; it is in the series by
    the study's hash.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[2] = SCHEMA_VERSION
    campaign: str
    profile: str
    started_at: str
    made_on: dict[str, str]
    made_for: dict[str, str] = Field(default_factory=dict)
    num_planned: int
    runs: list[CampaignRun]
    launches: list[CampaignLaunch]

    @property
    def series(self) -> str:
        """Digest what a campaign must share to be compared, to twelve hexadecimal digits."""
        text = json.dumps({"profile": self.profile} | self.made_on, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def seeds(self) -> set[int]:
        return {run.seed for run in self.runs}

    def accuracies(self, benchmark: str, variant: str) -> list[float]:
        """Return test accuracies in percent, of the completed runs."""
        chosen = [run for run in self.runs if (run.benchmark, run.variant) == (benchmark, variant)]
        return [100 * run.test_accuracy for run in chosen if run.test_accuracy is not None]

    def training_times(self, benchmark: str) -> list[float]:
        """Return logarithms of the baseline's epoch seconds, one a launch."""
        return [math.log(launch.epoch_seconds) for launch in self.launches if launch.benchmark == benchmark]

    def timed_variants(self, benchmark: str) -> list[str]:
        """Return the variants that every launch has timed, the baseline first."""
        measured = [launch.slowdowns for launch in self.launches if launch.benchmark == benchmark]
        return [name for name in (measured[0] if measured else []) if all(name in of_launch for of_launch in measured)]

    def launch_effects(self, benchmark: str, variants: Sequence[str]) -> np.ndarray:
        """Return logarithms of slowdowns, (num_launches, num_variants)."""
        measured = [launch.slowdowns for launch in self.launches if launch.benchmark == benchmark]
        return np.log([[of_launch[name] for name in variants] for of_launch in measured])


def entry(study: Study, records: Mapping[RunKey, RunRecord], speeds: Mapping[str, Speeds]) -> CampaignEntry:
    """Return the campaign's entry.

    Args:
        records: of the runs there are, at least one, which `check_comparable` has seen.
        speeds: by benchmark; where other work took more of the machine than the study allows, they don't count.
    """
    environment = next(iter(records.values())).environment
    return CampaignEntry(
        campaign=study.campaign,
        profile=study.profile,
        started_at=min(record.started_at for record in records.values()),
        made_on=_made_on(study, environment),
        made_for=_made_for(study),
        num_planned=len(study.runs()),
        runs=[
            CampaignRun(
                benchmark=key.benchmark,
                variant=key.variant,
                seed=key.seed,
                outcome=record.outcome,
                test_accuracy=record.scores.test_accuracy,
            )
            for key, record in records.items()
        ],
        launches=[
            CampaignLaunch(
                benchmark=benchmark,
                launch=number,
                epoch_seconds=seconds,
                slowdowns={name: math.exp(effects[found.variants.index(name)]) for name in found.often},
            )
            for benchmark, found in speeds.items()
            if (found.other_cpu_share or 0.0) <= study.comparison.max_other_cpu_share
            for number, (seconds, effects) in enumerate(zip(found.baseline_seconds, found.training, strict=True), 1)
        ],
    )


def _made_on(study: Study, environment: Mapping[str, Any]) -> dict[str, str]:
    image = environment.get("image") or {}
    recipe = study.model_copy(update={"campaign": "", "seeds": [], "description": "", "deviations": {}})
    return {
        "device": device(environment),
        "driver": environment.get("driver") or "none",
        "packages": environment.get("lock_sha256") or "unknown",
        "image": image.get("content_sha256") or "none",
        "study": hashlib.sha256(recipe.model_dump_json().encode()).hexdigest(),
    }


def _made_for(study: Study) -> dict[str, str]:
    return {"engine": study.engine, "runtime": study.runtime, "devices": str(study.devices)}


def check_baseline(study: Study, ledger: Path = LEDGER) -> None:
    """Refuse a campaign that can't be compared with what is pinned, as far as that is known before its runs.

    Another device or driver shows in the runs only, and opens a new series.

    Raises:
        InputError: campaigns are pinned, and all of them are of another engine, runtime or number of devices.
    """
    asked = _made_for(study)
    known = [_read(ledger / f"{name}.json") for names in _pinned(ledger).values() for name in names]
    if known and all(old.made_for not in ({}, asked) for old in known):
        raise InputError(
            f"the baseline, {known[-1].campaign}, is of {_words(known[-1].made_for)}; the study is of {_words(asked)}: "
            f"nothing would be compared. Pin a new baseline (take the old one out of {ledger / BASELINE}, commit, "
            "repeat the study, then python -m stages.pin), or use another branch"
        )


def _words(made_for: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in made_for.items())


def append(new: CampaignEntry, ledger: Path = LEDGER) -> Path:
    """Write the entry, and return its file. The same entry again is no fault.

    Raises:
        InputError: the ledger has another campaign of that name.
    """
    path = ledger / f"{new.campaign}.json"
    if path.exists():
        if _read(path) != new:
            raise InputError(f"{path} is there, and is another campaign. Give this one another name: campaign")
        return path
    ledger.mkdir(exist_ok=True)
    write_whole(path, new.model_dump_json(indent=2) + "\n")
    return path


def read_ledger(ledger: Path = LEDGER) -> list[CampaignEntry]:
    """Return every campaign, oldest first. Raise `InputError` that names a damaged file."""
    paths = [path for path in ledger.glob("*.json") if path.name != BASELINE]
    return sorted((_read(path) for path in paths), key=lambda found: (found.started_at, found.campaign))


def read_baseline(series: str, ledger: Path = LEDGER) -> list[CampaignEntry]:
    """Return the campaigns that `baseline.json` names as the baseline of a series; none where it names none."""
    return [_read(ledger / f"{name}.json") for name in _pinned(ledger).get(series, [])]


def _pinned(ledger: Path) -> dict[str, list[str]]:
    """Return, by series, the names of the campaigns that are its baseline."""
    path = ledger / BASELINE
    try:
        names = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {series: list(campaigns) for series, campaigns in names.items()}
    except (ValueError, AttributeError, TypeError):
        raise InputError(f"{path} is damaged: it must give a list of campaigns by series. See git log {path}") from None


def pin(campaigns: Sequence[str], ledger: Path = LEDGER) -> str:
    """Make these campaigns, of one series, its baseline; return the series. A commit of the file is the decision.

    Raises:
        InputError: one is not in the ledger, or they are of several series.
    """
    entries = [_read(ledger / f"{name}.json") for name in campaigns]
    series = {found.series for found in entries}
    if len(series) != 1:
        raise InputError(f"{', '.join(campaigns)} are of {len(series)} series and can't be one baseline")
    pinned = _pinned(ledger) | {entries[0].series: list(campaigns)}
    write_whole(ledger / BASELINE, json.dumps(pinned, indent=2, sort_keys=True) + "\n")
    return entries[0].series


def _read(path: Path) -> CampaignEntry:
    try:
        return CampaignEntry.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} is missing: there is no such campaign in the ledger") from None
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("schema_version",):
            raise InputError(
                f"{path} has schema version {first['input']}, not {SCHEMA_VERSION}: it holds no launches to compare "
                "speed with. Take it out of the ledger, and pin campaigns that have them"
            ) from None
        raise InputError(f"{path} is damaged ({first['msg']}). Get it back: git checkout {path}") from None
