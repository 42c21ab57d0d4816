"""Verify a published study that a stranger may have sent: its files, its claims, its description, and every number."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.claims.schema import CLAIMS, Claims, load_claims
from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.archive import COMPILED_FOR, unpack
from pipeline.publication.published import FILES, check_size, read_published
from pipeline.publication.recomputing import not_of_project, recompute
from pipeline.report.rendering import PROJECT


class Checked(NamedTuple):
    """Hold what is told of a study that this project's code gives as it was published.

    `not_ours` are files of the project that the archive has otherwise, `own_claims` those that the sender added.
    """

    num_runs: int
    not_ours: Sequence[str]
    own_claims: Sequence[str]


def check_report(folder: Path) -> Checked:
    """Verify the published study in `folder`. Nothing of it is run.

    Raises:
        InputError: a file is missing, too many, damaged or another than its archive's; or the study and
            its description do not follow from its records and this project's claims.
    """
    read_published(folder)
    if odd := sorted(path.name for path in folder.iterdir() if path.name not in FILES):
        raise InputError(f"{folder}: {excerpt(', '.join(odd))} is no part of a published study. Remove it")
    check_size(folder / "report.html")
    archive = folder / "crate.zip"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "study")
        unpack(archive, root)
        own_claims, not_ours = check_project_files(root), not_of_project(root)
    found = recompute(archive)
    found.check(f"{archive}: its records give other results than were published.")
    return Checked(found.num_runs, not_ours, own_claims)


def check_project_files(root: Path) -> list[str]:
    """Check the files that claims are judged by in the archive unpacked in `root`; return the sender's own claims.

    Raises:
        InputError: names the files, or the entries of the claims, that are not as this project has them, or a claim of
            the sender's that has a source of the project's say what the project does not know of it.
    """
    odd = [name for name in COMPILED_FOR if _content(root / name) != _content(PROJECT / name)]
    claims, ours = load_claims(root / CLAIMS), _entries(load_claims(PROJECT / CLAIMS))
    odd += [f"{CLAIMS}: {name}" for name, value in _entries(claims).items() if ours.get(name, value) != value]
    if odd:
        raise InputError(
            f"{', '.join(odd)}: not as this project has it. Take compiled/, conf/base.yaml and {CLAIMS} from it, judge "
            "and report again with dvc repro, and publish again. A claim of your own has a name of its own"
        )
    for claim in claims.claims:
        if f"claims.{claim.id}" not in ours and f"sources.{claim.source}" in ours:
            raise InputError(
                f"{CLAIMS}: {claim.id} has {claim.source} say what this project does not know of it. Put it under "
                "findings, or name a source of your own"
            )
    return [claim.id for claim in claims.all if f"claims.{claim.id}" not in ours]


def _entries(claims: Claims) -> dict[str, Any]:
    """Return what claims define by section and name; figures by their source."""
    found: dict[str, Any] = {f"sources.{name}": source for name, source in claims.sources.items()}
    found |= {f"variants.{name}": variant for name, variant in claims.variants.items()}
    for name in claims.sources:
        found[f"figures.{name}"] = [figure for figure in claims.figures if figure.source == name]
    return found | {f"claims.{claim.id}": (claim in claims.findings, claim) for claim in claims.all}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
