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

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.comparison.pairing import device
from pipeline.comparison.timing import counted_epoch_seconds
from pipeline.errors import InputError
from pipeline.files.writing import write_whole
from pipeline.records.schema import EpochRecord, RunRecord
from pipeline.study.schema import RunKey, Study

LEDGER = Path("history")
BASELINE = "baseline.json"


class CampaignRun(BaseModel):
    """One run of a campaign. Accuracy in [0, 1]; `epoch_seconds`, as it is compared, is None where it doesn't count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    variant: str
    seed: int
    outcome: str
    test_accuracy: float | None
    epoch_seconds: float | None


class CampaignEntry(BaseModel):
    """A campaign: what it was made on, and each run that finished, of `num_planned`.

    `made_for` is the class of machine the study asks for, which is known before anything is run; it is in the series by
    the study's hash.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    campaign: str
    profile: str
    started_at: str
    made_on: dict[str, str]
    made_for: dict[str, str] = Field(default_factory=dict)
    num_planned: int
    runs: list[CampaignRun]

    @property
    def series(self) -> str:
        """Digest what a campaign must share to be compared, to twelve hexadecimal digits."""
        text = json.dumps({"profile": self.profile} | self.made_on, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def seeds(self) -> set[int]:
        return {run.seed for run in self.runs}

    def values(self, benchmark: str, variant: str, quantity: str) -> list[float]:
        """Test accuracies in percent, or logarithms of epoch seconds, of the completed runs that have them."""
        chosen = [run for run in self.runs if (run.benchmark, run.variant) == (benchmark, variant)]
        if quantity == "test accuracy":
            return [100 * run.test_accuracy for run in chosen if run.test_accuracy is not None]
        return [math.log(run.epoch_seconds) for run in chosen if run.epoch_seconds is not None]


def entry(
    study: Study, records: Mapping[RunKey, RunRecord], epochs: Mapping[RunKey, Sequence[EpochRecord]]
) -> CampaignEntry:
    """Return the campaign's entry from the runs there are, at least one, which `check_comparable` has seen."""
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
                epoch_seconds=counted_epoch_seconds(record, epochs[key], study.comparison),
            )
            for key, record in records.items()
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
        raise InputError(f"{path} is damaged ({error.errors()[0]['msg']}). Get it back: git checkout {path}") from None
