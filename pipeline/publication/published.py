"""Read published studies, of today's schema or an older one: what the site shows of them, and no more."""

import re
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from pipeline.comparison.schema import Comparison
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.untrusted import Remedy, damaged, excerpt, fault, read_json
from pipeline.publication.archive import check_beside
from pipeline.publication.compiled_columns import COMPILED_PAGES

PAGES = ("index.html", "history.html", "feed.xml", "badge.svg")
CLAIM_PAGES = "claims"
FOLDERS = (CLAIM_PAGES, COMPILED_PAGES)
# What a folder of a published study holds; the archive has everything else.
FILES = ("report.html", "crate.zip", "params.yaml", "comparison.json", "verdicts.json", "status.json")
MAX_REPORT_BYTES = 3 * 10**6  # which opens within two seconds; a study of the profile `paper` has 1.1 MB
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_Line = Annotated[str, Field(max_length=200)]
_Word = Annotated[str, Field(pattern=r"^[a-z ]{1,40}$")]


def _past(text: str) -> str:
    """Refuse a time that is yet to come: the study would stay the latest one of the site."""
    if datetime.fromisoformat(text).timestamp() > time.time() + 24 * 3600:
        raise ValueError(f"{text} is yet to come. Whose clock was wrong?")
    return text


class _Shown(BaseModel):
    """Hold what the site shows of a file. What else an older or a later schema has is left aside."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class ShownStudy(_Shown):
    profile: _Line
    campaign: _Line
    description: str = ""


class ShownVerdict(_Shown):
    """A verdict. Claims were all those of sources before they said whose they are."""

    id: str
    source: _Line
    said_by: Literal["source", "us"] = "source"
    verdict: _Word
    evidence: _Word | None = None
    reason: str = ""
    published: str = ""
    measured: str | None = None


class ShownStatus(_Shown):
    device: str
    finished_at: Annotated[_Line, AfterValidator(_past)]
    advice: dict[str, str] = Field(default_factory=dict)


class Published(NamedTuple):
    """Hold one published study, read from its folder. It has no `comparison` where that is of another schema."""

    folder: Path
    study: ShownStudy
    comparison: Comparison | None
    verdicts: list[dict[str, Any]]
    status: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def counts(self) -> dict[str, int]:
        """Count the verdicts on published claims."""
        published = [v["verdict"] for v in self.verdicts if v["said_by"] == "source" and v["verdict"] != "definition"]
        return dict(Counter(published).most_common())


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
    check_beside(folder / "crate.zip", {in_archive(name): folder / name for name in FILES if name != "crate.zip"})
    verdicts = read_json(list[ShownVerdict], folder / "verdicts.json", remedy)
    return Published(
        folder=folder,
        study=_study(folder / "params.yaml", remedy),
        comparison=_comparison(folder / "comparison.json", remedy),
        verdicts=[verdict.model_dump() for verdict in verdicts],
        status=read_json(ShownStatus, folder / "status.json", remedy).model_dump(),
    )


def check_name(folder: Path) -> None:
    """Raise `InputError` where no address can have the folder's name, or a page of the site has it."""
    if folder.name.lower() in (*PAGES, *FOLDERS):
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


def in_archive(name: str) -> str:
    """Return the name in its archive of a file that lies beside it."""
    return name if name == "params.yaml" else f"results/{name}"


def _study(path: Path, remedy: Remedy) -> ShownStudy:
    try:
        return ShownStudy.model_validate(yaml_files.load(path))
    except ValidationError as error:
        raise damaged(path, fault(error), remedy) from None


def _comparison(path: Path, remedy: Remedy) -> Comparison | None:
    """Return the comparison; None where it is whole, and of another schema than today's."""
    read_json(dict[str, Any], path, remedy)
    try:
        return read_json(Comparison, path, remedy)
    except InputError:
        return None
