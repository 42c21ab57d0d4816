"""Check that what an archive says in this project's name is this project's: compiled programs, recipes and claims."""

import filecmp
from pathlib import Path
from typing import Any

from pipeline.claims.schema import CLAIMS, Claims, load_claims
from pipeline.errors import InputError
from pipeline.publication.archive import COMPILED_FOR, names_of_project
from pipeline.report.rendering import PROJECT


class OtherDayError(InputError):
    """Refuse what may be right by another day's code, claims or compilers."""


def not_of_project(root: Path) -> list[str]:
    """List what every archive takes from this project, and the one unpacked in `root` lacks or has otherwise."""
    names = {str(CLAIMS), *names_of_project(PROJECT), *names_of_project(root)}
    return sorted(names - set(filecmp.cmpfiles(PROJECT, root, names, shallow=False)[0]))


def check_project_files(root: Path, project: Path = PROJECT) -> list[str]:
    """Check the files that claims are judged by in the archive unpacked in `root`; return the sender's own claims.

    Raises:
        OtherDayError: names the files, or the entries of the claims, that are not as `project` has them.
        InputError: a claim of the sender's has a source of the project's say what the project does not know of it.
    """
    odd = [name for name in COMPILED_FOR if _content(root / name) != _content(project / name)]
    claims, ours = load_claims(root / CLAIMS), _entries(load_claims(project / CLAIMS))
    odd += [f"{CLAIMS}: {name}" for name, value in _entries(claims).items() if ours.get(name, value) != value]
    if odd:
        raise OtherDayError(
            f"{', '.join(odd)}: not as this project has it. Take compiled/, conf/base.yaml and {CLAIMS} from it, judge "
            "and report again with dvc repro, and publish again. A claim of your own has a name of its own"
        )
    own = [claim for claim in claims.claims if f"claims.{claim.id}" not in ours]
    for claim in own:
        if f"sources.{claim.source}" in ours and claim.said_by != "us":
            raise InputError(
                f"{CLAIMS}: {claim.id} has {claim.source} say what this project does not know of it. Write said_by: "
                "us, or name a source of your own"
            )
    return [claim.id for claim in own]


def _entries(claims: Claims) -> dict[str, Any]:
    """Return what claims define by section and name; figures by their source."""
    found: dict[str, Any] = {f"sources.{name}": source for name, source in claims.sources.items()}
    found |= {f"variants.{name}": variant for name, variant in claims.variants.items()}
    for name in claims.sources:
        found[f"figures.{name}"] = [figure for figure in claims.figures if figure.source == name]
    return found | {f"claims.{claim.id}": claim for claim in claims.claims}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
