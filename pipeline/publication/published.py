"""Read a published study for the site: six files, each of which must be the one in its archive."""

import re
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipeline.claims.verdicts import Judgement, Verdicts
from pipeline.comparison.schema import Comparison
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, damaged, excerpt, read_bytes, read_json
from pipeline.publication.archive import GET_IT_AGAIN, read_archive
from pipeline.study.schema import Study, load_study

# What a folder of a published study holds, and where each of it lies in the study; the archive has everything else.
_NAMES = ("report.html", "crate.zip", "params.yaml", "comparison.json", "verdicts.json", "status.json")
FILES = {name: f"results/{name}" for name in _NAMES} | {"params.yaml": "params.yaml"}
CLAIM_PAGES, COMPILED_PAGES = "claims", "compiled"
PAGES = ("index.html", "feed.xml", "badge.svg")
MAX_REPORT_BYTES = 3 * 10**6  # which opens within two seconds; a study of the profile `paper` has 1.1 MB
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _past(text: str) -> str:
    """Refuse a time that is yet to come: the study would stay the latest one of the site."""
    if datetime.fromisoformat(text).timestamp() > time.time() + 24 * 3600:
        raise ValueError(f"{text} is yet to come. Whose clock was wrong?")
    return text


class ShownStatus(BaseModel):
    """Hold what the site shows of `status.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    device: str
    finished_at: Annotated[str, Field(max_length=200), AfterValidator(_past)]
    advice: dict[str, str]


class Published(NamedTuple):
    """Hold one published study, read from its folder."""

    folder: Path
    study: Study
    comparison: Comparison
    verdicts: list[Judgement]
    status: ShownStatus
    runs: Sequence[dict[str, Any]] = ()  # they lie in the archive

    @property
    def name(self) -> str:
        return self.folder.name


def read_published(folder: Path) -> Published:
    """Read the study in `folder`. Its files must be those of its archive; nothing is recomputed.

    Raise an `InputError` that names the file that is missing, damaged or another.
    """
    check_name(folder)
    if folder.is_symlink():
        raise InputError(f"{folder} is a link, and may lead anywhere. Put the study itself there")
    missing = [name for name in FILES if not (folder / name).is_file() or (folder / name).is_symlink()]
    remedy = Remedy(*[f"Publish the study again: make publish TO={folder}"] * 2)
    if missing:
        raise InputError(f"{folder}: {', '.join(missing)} missing, or no plain file. {remedy.missing}")
    contents = read_archive(folder / "crate.zip")
    for name, path in FILES.items():
        if name != "crate.zip" and read_bytes(folder / name, GET_IT_AGAIN) != contents.get(path):
            raise damaged(folder / name, "it is not the one in crate.zip", GET_IT_AGAIN)
    return Published(
        folder=folder,
        study=load_study(folder / "params.yaml"),
        comparison=read_json(Comparison, folder / "comparison.json", remedy),
        verdicts=read_json(Verdicts, folder / "verdicts.json", remedy).judgements,
        status=read_json(ShownStatus, folder / "status.json", remedy),
    )


def check_name(folder: Path) -> None:
    """Raise `InputError` where no address can have the folder's name, or a page of the site has it."""
    if folder.name.lower() in (*PAGES, CLAIM_PAGES, COMPILED_PAGES):
        raise InputError(f"{folder}: the site has a page of that name. Rename the folder")
    if not _NAME.fullmatch(folder.name):
        raise InputError(
            f"{excerpt(folder)}: its name must be at most 100 letters, digits, ., - and _ for an address, and begin "
            "with a letter or a digit. Rename the folder"
        )


def check_size(report: Path) -> None:
    """Raise `InputError` where a report opens slowly."""
    if (num_bytes := report.stat().st_size) > MAX_REPORT_BYTES:
        raise InputError(
            f"{report} has {num_bytes / 1e6:.1f} MB, and opens slowly above {MAX_REPORT_BYTES / 1e6:g} MB. Publish a "
            "study of fewer variants"
        )
