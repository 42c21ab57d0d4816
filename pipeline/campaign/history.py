"""The ledger of campaigns: one small file each, never changed once written, and which of them are the baseline.

Different campaigns have different files, so branches merge. A campaign is compared with those of its series alone: the
same device, driver, packages, image, engine and study.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from pipeline.campaign.entry import CampaignEntry
from pipeline.errors import InputError
from pipeline.files.untrusted import fault
from pipeline.files.writing import write_whole

LEDGER = Path("history")
BASELINE = "baseline.json"


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
    names = list(dict.fromkeys(campaigns))
    entries = [_read(ledger / f"{name}.json") for name in names]
    series = {found.series for found in entries}
    if len(series) != 1:
        raise InputError(f"{', '.join(names)} are of {len(series)} series and can't be one baseline")
    pinned = _pinned(ledger) | {entries[0].series: names}
    write_whole(ledger / BASELINE, json.dumps(pinned, indent=2, sort_keys=True) + "\n")
    return entries[0].series


def _read(path: Path) -> CampaignEntry:
    try:
        return CampaignEntry.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} is missing: there is no such campaign in the ledger") from None
    except ValidationError as error:
        raise InputError(f"{path} is damaged ({fault(error)}). Get it back: git checkout {path}") from None
